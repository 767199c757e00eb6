// The desk of a row with very many classes.
#include "desk.hpp"

#include <functional>
#include <utility>

namespace polymargin {

Desk::Desk(Size n_classes)
    : c_(n_classes), classes_(c_ + 2), a_(c_ + 2), g_(padded(c_ + 2)), next_(c_ + 2), scratch_(c_ + 2),
      every_((c_ / group_ + 1) * group_), peaks_(every_.size() / group_) {}

void Desk::list_highest_classes(const DualRows& duals, const DualRows::Slot& slot, Index y, double level, Size fewest, RowList& row) {
    const Size n_duals = static_cast<Size>(slot.count), enough = std::max(widest_ / 2, fewest) + n_duals;
    std::fill(every_.begin() + static_cast<std::ptrdiff_t>(c_), every_.end(), -infinity);
    const double own = std::exchange(every_[static_cast<Size>(y)], -infinity);
    for (Index k = 0; k < slot.count; ++k) level = std::min(level, every_[static_cast<Size>(duals.label(slot, k))]);
    Size high = 0;
    for (Size group = 0; group < peaks_.size(); ++group) {
        peaks_[group] = RowList::highest_of(&every_[group * group_], group_);
        high += peaks_[group] >= level;
    }
    row.narrowed = high > widest_ && high >= enough;
    Size ties = c_;  // that are listed
    if (row.narrowed) {  // as many groups have a class at this level as may be wanted
        ranked_ = peaks_;
        const auto last = ranked_.begin() + static_cast<std::ptrdiff_t>(enough - 1);
        std::nth_element(ranked_.begin(), last, ranked_.end(), std::greater<double>());
        level = *last;
        ties = enough;
    }
    order_.clear();
    for (Size group = 0; group < peaks_.size(); ++group) {
        if (peaks_[group] < level) continue;
        for (Size k = group * group_; k < std::min(c_, (group + 1) * group_); ++k) {
            if (every_[k] < level || k == static_cast<Size>(y)) continue;
            if (every_[k] == level) {
                if (ties == 0) continue;
                --ties;
            }
            order_.push_back(k);
        }
    }
    for (Index k = 0; k < slot.count; ++k) order_.push_back(static_cast<Size>(duals.label(slot, k)));
    if (n_duals > 0) {
        std::sort(order_.begin(), order_.end());
        order_.erase(std::unique(order_.begin(), order_.end()), order_.end());
    }
    every_[static_cast<Size>(y)] = row.g_target = own;
    row.count = order_.size();
    for (Size k = 0; k < row.count; ++k) {
        row.classes[k] = static_cast<Index>(order_[k]);
        row.g[k] = every_[order_[k]];
        row.a[k] = 0.0;
    }
    for (Index k = 0; k < slot.count; ++k) {
        const auto place = std::lower_bound(order_.begin(), order_.end(), static_cast<Size>(duals.label(slot, k)));
        row.a[place - order_.begin()] = duals.values(slot)[k];
    }
}

// The level that so many zeros reach, then one pass in order. Of those on the level the first stay.
void Desk::keep_most_violated(RowList& row, Size fewest) {
    const Size most = std::max(widest_ / 2, fewest);
    ranked_.clear();
    for (Size k = 0; k < row.count; ++k) {
        if (!(row.a[k] > 0.0)) ranked_.push_back(row.g[k]);
    }
    double level = -infinity;
    Size ties = row.count;  // that stay
    if (ranked_.size() > most) {
        const auto last = ranked_.begin() + static_cast<std::ptrdiff_t>(most - 1);
        std::nth_element(ranked_.begin(), last, ranked_.end(), std::greater<double>());
        level = *last;
        ties = most - static_cast<Size>(std::count_if(ranked_.begin(), last, [&](double g) { return g > level; }));
    }
    Size kept = 0;
    for (Size k = 0; k < row.count; ++k) {
        if (!(row.a[k] > 0.0)) {
            if (row.g[k] < level) continue;
            if (row.g[k] == level) {
                if (ties == 0) continue;
                --ties;
            }
        }
        row.keep(kept++, k);
    }
    row.count = kept;
    row.narrowed = true;
}

}  // namespace polymargin
