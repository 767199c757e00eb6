// What squared losses share: nothing bounds their duals from above.
#pragma once

#include "row_view.hpp"

namespace polymargin {

struct UnboundedDuals {
    static constexpr bool has_faces = true;

    Size fewest() const { return 1; }
    double room(const RowDuals& /*duals*/) const { return 1.0; }
    bool is_free(double a, double /*cost*/, bool /*own*/) const { return a > 0.0; }
    bool is_closed(double /*sum*/, double /*cost*/) const { return false; }
    void project(const RowDuals& duals, bool /*closed*/, double /*held*/, double* a, double* /*scratch*/) const {
        for (Size k = 0; k < duals.count; ++k) a[k] = std::max(0.0, a[k]);
    }
    bool settled(const RowView& row) const { return row.count == 0; }
};

}  // namespace polymargin
