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

// One pass: the best zeros so far are a heap, and most others do not beat the worst of these. Of equal ones the first stay.
void Desk::keep_most_violated(RowList& row, Size fewest) {
    const Size most = std::max(widest_ / 2, fewest);
    const auto comes_before = [&](Size k, Size l) { return row.g[k] != row.g[l] ? row.g[k] > row.g[l] : k < l; };
    order_.clear();
    zeros_.clear();
    for (Size k = 0; k < row.count; ++k) {
        if (row.a[k] > 0.0) {
            order_.push_back(k);
        } else if (zeros_.size() < most) {
            zeros_.push_back(k);
            std::push_heap(zeros_.begin(), zeros_.end(), comes_before);
        } else if (row.g[k] > row.g[zeros_.front()]) {
            std::pop_heap(zeros_.begin(), zeros_.end(), comes_before);
            zeros_.back() = k;
            std::push_heap(zeros_.begin(), zeros_.end(), comes_before);
        }
    }
    order_.insert(order_.end(), zeros_.begin(), zeros_.end());
    std::sort(order_.begin(), order_.end());
    for (Size k = 0; k < order_.size(); ++k) row.keep(k, order_[k]);
    row.count = order_.size();
    row.narrowed = true;
}

}  // namespace polymargin
