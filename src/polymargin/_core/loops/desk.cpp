// The desk of a row with very many classes.
#include "desk.hpp"

namespace polymargin {

Desk::Desk(Size n_classes)
    : c_(n_classes), classes_(c_ + 2), a_(c_ + 2), g_(padded(c_ + 2)), next_(c_ + 2), scratch_(c_ + 2), every_(padded(c_ + 1)) {}

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
