// The dual variables a_il >= 0 of all rows, stored sparsely: l != y_i, or any l for absolute margins.
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
#include <cstdint>
#include <utility>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

// Labels: class indices, in two bytes each where they fit.
class Labels {
public:
    explicit Labels(Size n_classes) : wide_(n_classes > (Size{1} << 16)) {}

    Index operator[](Size at) const {
        return wide_ ? static_cast<Index>(low_[at]) | static_cast<Index>(high_[at]) << 16 : static_cast<Index>(low_[at]);
    }
    void set(Size at, Index label) {
        low_[at] = static_cast<std::uint16_t>(label & 0xffff);
        if (wide_) high_[at] = static_cast<std::uint16_t>(label >> 16);
    }
    Size size() const { return low_.size(); }
    void resize(Size count) {
        low_.resize(count);
        if (wide_) high_.resize(count);
    }
    void prefetch(Size at) const { PM_PREFETCH(low_.data() + at); }

private:
    bool wide_;
    std::vector<std::uint16_t> low_, high_;
};

class DualRows {
public:
    struct Slot {
        Size start;
        Index capacity, count, active;
        bool every, target_active;  // target_active: the row still moves the dual of its own class
    };

    // `most`: duals a row may have
    DualRows(Size n_rows, Size n_classes, Size most) : slots_(n_rows), labels_(n_classes) {
        const Index capacity = static_cast<Index>(n_classes <= 32 ? most : 16);
        for (Size i = 0; i < n_rows; ++i) {
            slots_[i] = {i * static_cast<Size>(capacity), capacity, 0, 0, true, true};
        }
        labels_.resize(n_rows * static_cast<Size>(capacity));
        values_.resize(labels_.size());
    }

    Slot& slot(Size i) { return slots_[i]; }
    const Slot& slot(Size i) const { return slots_[i]; }
    Index label(const Slot& s, Index k) const { return labels_[s.start + static_cast<Size>(k)]; }
    double* values(const Slot& s) { return values_.data() + s.start; }
    const double* values(const Slot& s) const { return values_.data() + s.start; }

    void set(const Slot& s, Index k, Index label, double value) {
        labels_.set(s.start + static_cast<Size>(k), label);
        values_[s.start + static_cast<Size>(k)] = value;
    }

    double& value_at(Size position) { return values_[position]; }

    void prefetch(Size i) const {
        labels_.prefetch(slots_[i].start);
        PM_PREFETCH(values_.data() + slots_[i].start);
        PM_EFFECT();
    }

    bool has_room(Size i, Size count) const { return count <= static_cast<Size>(slots_[i].capacity); }

    // Makes room for `count` entries in row i and forgets the old ones.
    void reserve(Size i, Size count) {
        if (!has_room(i, count)) move_to_end(slots_[i], count);
    }

    // Row i looks at every class again; zero entries are dropped.
    void restore(Size i) {
        Slot& s = slots_[i];
        if (!s.every) {
            const double* a = values(s);
            Index kept = 0;
            for (Index k = 0; k < s.count; ++k) {
                if (a[k] != 0.0) set(s, kept++, label(s, k), a[k]);
            }
            s.count = kept;
        }
        s.every = s.target_active = true;
    }

private:
    void move_to_end(Slot& s, Size count);
    void compact();  // moves all rows together; capacities shrink to the entries in use

    std::vector<Slot> slots_;
    Labels labels_;
    std::vector<double> values_;
    Size waste_ = 0;
};

}  // namespace polymargin
