// Where a visited row lies: the arrays of its list, and how lists are gathered, narrowed and written back to the duals.
#pragma once

#include <algorithm>
#include <vector>

#include "domains/common/row_view.hpp"
#include "machine/duals.hpp"

namespace polymargin {

class Desk {
public:
    explicit Desk(Size n_classes);

    // An empty list. (Filled in place: a copy would wait for what has just been stored.)
    void begin(RowList& row) {
        row.classes = classes_.data();
        row.a = a_.data();
        row.g = g_.data();
        row.next = next_.data();
        row.scratch = scratch_.data();
        row.count = 0;
        row.g_target = 0.0;
        row.narrowed = false;
    }

    double* every() { return every_.data(); }  // room for the scores of all classes

    // The row looks at all classes but its own, with the scores in `every`.
    void list_every_class(const DualRows& duals, const DualRows::Slot& slot, Index y, RowList& row) const {
        for (Index k = 0; k < static_cast<Index>(c_); ++k) {
            if (k == y) continue;
            row.classes[row.count] = k;
            row.a[row.count] = 0.0;
            row.g[row.count++] = every_[static_cast<Size>(k)];
        }
        const double* a = duals.values(slot);
        for (Index k = 0; k < slot.count; ++k) {
            const Index label = duals.label(slot, k);
            row.a[label - (label > y ? 1 : 0)] = a[k];
        }
        row.g_target = every_[static_cast<Size>(y)];
    }

    // The same where a row's gap is that of its highest class: classes that have no dual, and are below all that have one and below
    // `level`, that of the own class, would leave the list at once, and are not listed. Where more are left than a row moves at a
    // time, only the most violated are listed (and maybe a few that tie with them, or are close).
    void list_highest_classes(const DualRows& duals, const DualRows::Slot& slot, Index y, double level, Size fewest, RowList& row);
    bool has_very_many() const { return c_ >= very_many_; }  // from so many classes on that pays

    // The same for absolute margins, of the own class, its rivals or both. Without rivals no scores are there yet.
    void list_every_margin(const DualRows& duals, const DualRows::Slot& slot, Index y, bool own, bool rivals, RowList& row) const {
        for (Index k = rivals ? 0 : y; k < (rivals ? static_cast<Index>(c_) : y + 1); ++k) {
            if (k == y && !own) continue;
            row.classes[row.count] = k;
            row.a[row.count] = 0.0;
            row.g[row.count++] = every_[static_cast<Size>(k)];
        }
        const double* a = duals.values(slot);
        for (Index k = 0; k < slot.count; ++k) {
            const Index label = duals.label(slot, k);
            row.a[rivals ? label - (!own && label > y ? 1 : 0) : 0] = a[k];
        }
    }

    // The row looks at its list; the scores are still to come.
    void list_active_classes(const DualRows& duals, const DualRows::Slot& slot, RowList& row) const {
        row.count = static_cast<Size>(slot.active);
        for (Index k = 0; k < slot.active; ++k) row.classes[k] = duals.label(slot, k);
        std::copy_n(duals.values(slot), slot.active, row.a);
    }

    // With very many classes a row moves only its non-zero duals and the most violated classes: at the start all classes
    // tie, and n times c duals would come into being only to vanish again. Still an ascent step; the row goes on looking at
    // every class. `fewest` classes are kept beside the non-zero duals. Separate duals, each in bounds of its own, do not vanish
    // again: of those only very many are narrowed.
    void narrow(RowList& row, Size fewest, bool separate = false) {
        if (row.narrowed || row.count > (separate ? very_many_ : widest_)) keep_most_violated(row, fewest);
    }

    // Writes the list back, and behind it the parked classes. A row looks at every class until enough have dropped to make a
    // list pay; among very many classes those it has moved are its list at once: most others have scores so near to each other
    // that they drop late, and are looked at again when all rows are restored.
    void store(DualRows& duals, Size i, const RowList& row, const Index* parked = nullptr, const double* parked_duals = nullptr,
               Size n_parked = 0) const {
        duals.reserve(i, n_entries(duals, i, row, n_parked));
        store_in_place(duals, i, row, parked, parked_duals, n_parked);
    }

    // The same where there is room for it: the duals of no other row move. Whether there was.
    bool store_if_room(DualRows& duals, Size i, const RowList& row, const Index* parked, const double* parked_duals, Size n_parked) const {
        if (!duals.has_room(i, n_entries(duals, i, row, n_parked))) return false;
        store_in_place(duals, i, row, parked, parked_duals, n_parked);
        return true;
    }

private:
    static constexpr Size widest_ = 64;  // classes a row moves at a time
    static constexpr Size very_many_ = 512;  // classes
    static constexpr Size group_ = 16;       // neighbours whose highest score says whether to look at them one by one

    void keep_most_violated(RowList& row, Size fewest);

    bool goes_on_with_every_class(const DualRows& duals, Size i, const RowList& row) const {
        const bool waits_for_list = row.narrowed && c_ < very_many_;
        return duals.slot(i).every && (waits_for_list || row.count > longest_list());
    }
    Size n_entries(const DualRows& duals, Size i, const RowList& row, Size n_parked) const {
        const bool every = goes_on_with_every_class(duals, i, row);
        return n_parked + row.count - (every ? static_cast<Size>(std::count(row.a, row.a + row.count, 0.0)) : Size{0});
    }
    void store_in_place(DualRows& duals, Size i, const RowList& row, const Index* parked, const double* parked_duals, Size n_parked) const {
        const bool every = goes_on_with_every_class(duals, i, row);
        auto& slot = duals.slot(i);
        Index m = 0;
        for (Size k = 0; k < row.count; ++k) {
            if (!every || row.a[k] != 0.0) duals.set(slot, m++, row.classes[k], row.a[k]);
        }
        slot.active = slot.count = m;
        for (Size k = 0; k < n_parked; ++k) duals.set(slot, slot.count++, parked[k], parked_duals[k]);
        slot.every = every;
    }
    Size longest_list() const { return c_ <= widest_ ? c_ - 2 : widest_; }

    Size c_;
    std::vector<Size> order_;
    std::vector<Index> classes_;
    std::vector<double> a_, g_, next_, scratch_, every_, peaks_, ranked_;
};

}  // namespace polymargin
