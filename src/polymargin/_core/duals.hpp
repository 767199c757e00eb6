// The dual variables a_il >= 0 (l != y_i) of all rows, stored sparsely.
//
// Most of the n * c duals of a max-margin machine are zero, and most classes of a row stop mattering early. A row
// keeps only the classes it still looks at (its list) and those with a_il > 0:
//
//   every[i] = 1   the row looks at all classes; its entries are the non-zero duals, in any order
//   every[i] = 0   entries [0, active) are looked at; entries [active, count) are non-zero but parked at a bound
//
// Rows live in one arena; a row that outgrows its slot moves to the end, and the arena is compacted when more than
// half of it is waste.
#pragma once

#include <algorithm>
#include <vector>

#include "rows.hpp"

namespace polymargin {

class DualRows {
public:
    struct Slot {
        Size start;
        Index capacity, count, active;
        bool every, target_active;  // target_active: the row still moves the dual of its own class
    };

    DualRows(Size n_rows, Size n_classes) : slots_(n_rows) {
        const Index capacity = static_cast<Index>(n_classes <= 32 ? n_classes - 1 : 16);
        for (Size i = 0; i < n_rows; ++i) {
            slots_[i] = {i * static_cast<Size>(capacity), capacity, 0, 0, true, true};
        }
        classes_.resize(n_rows * static_cast<Size>(capacity));
        values_.resize(classes_.size());
    }

    Slot& slot(Size i) { return slots_[i]; }
    const Slot& slot(Size i) const { return slots_[i]; }
    Index* classes(const Slot& s) { return classes_.data() + s.start; }
    const Index* classes(const Slot& s) const { return classes_.data() + s.start; }
    double* values(const Slot& s) { return values_.data() + s.start; }
    const double* values(const Slot& s) const { return values_.data() + s.start; }

    double& value_at(Size position) { return values_[position]; }

    void prefetch(Size i) const {
        PM_PREFETCH(classes_.data() + slots_[i].start);
        PM_PREFETCH(values_.data() + slots_[i].start);
    }

    // Makes room for `count` entries in row i and forgets the old ones.
    void reserve(Size i, Size count) {
        Slot& s = slots_[i];
        if (count <= static_cast<Size>(s.capacity)) return;
        waste_ += static_cast<Size>(s.capacity);
        s.count = s.active = 0;
        if (waste_ > classes_.size() / 2) compact();
        const Size capacity = count + count / 2;  // slack, so that a growing row does not move every time
        s.start = classes_.size();
        s.capacity = static_cast<Index>(capacity);
        classes_.resize(s.start + capacity);
        values_.resize(s.start + capacity);
    }

    // Row i looks at every class again; zero entries are dropped.
    void restore(Size i) {
        Slot& s = slots_[i];
        if (!s.every) {
            Index* cls = classes(s);
            double* a = values(s);
            Index kept = 0;
            for (Index k = 0; k < s.count; ++k) {
                if (a[k] != 0.0) {
                    cls[kept] = cls[k];
                    a[kept++] = a[k];
                }
            }
            s.count = kept;
        }
        s.every = s.target_active = true;
    }

    Size n_rows() const { return slots_.size(); }

    // Moves all rows together; capacities shrink to the entries in use.
    void compact() {
        Size live = 0;
        for (const Slot& s : slots_) live += static_cast<Size>(s.count);
        std::vector<Index> classes(live);
        std::vector<double> values(live);
        Size at = 0;
        for (Slot& s : slots_) {
            std::copy_n(classes_.data() + s.start, s.count, classes.data() + at);
            std::copy_n(values_.data() + s.start, s.count, values.data() + at);
            s.start = at;
            s.capacity = s.count;
            at += static_cast<Size>(s.count);
        }
        classes_.swap(classes);
        values_.swap(values);
        waste_ = 0;
    }

private:
    std::vector<Slot> slots_;
    std::vector<Index> classes_;
    std::vector<double> values_;
    Size waste_ = 0;
};

}  // namespace polymargin
