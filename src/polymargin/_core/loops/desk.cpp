// The desk of a row with very many classes.
#include "desk.hpp"

namespace polymargin {

Desk::Desk(Size n_classes)
    : c_(n_classes), classes_(c_ + 2), a_(c_ + 2), g_(padded(c_ + 2)), next_(c_ + 2), scratch_(c_ + 2), every_(padded(c_ + 1)) {}

void Desk::keep_most_violated(RowList& row, Size fewest) {
    order_.resize(row.count);
    for (Size k = 0; k < row.count; ++k) order_[k] = k;
    const auto first_zero = std::partition(order_.begin(), order_.end(), [&](Size k) { return row.a[k] > 0.0; });
    const auto nonzero = static_cast<Size>(first_zero - order_.begin());
    const Size kept = std::min(row.count, nonzero + std::max(widest_ / 2, fewest));
    std::nth_element(first_zero, order_.begin() + static_cast<std::ptrdiff_t>(kept), order_.end(),
                     [&](Size k, Size l) { return row.g[k] != row.g[l] ? row.g[k] > row.g[l] : k < l; });
    std::sort(order_.begin(), order_.begin() + static_cast<std::ptrdiff_t>(kept));
    for (Size k = 0; k < kept; ++k) row.keep(k, order_[k]);
    row.count = kept;
    row.narrowed = true;
}

}  // namespace polymargin
