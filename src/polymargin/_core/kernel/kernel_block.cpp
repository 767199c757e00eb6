// How rows of the kernel dual are moved, whatever the domain.
#include "kernel_block.hpp"

namespace polymargin {

void add_step(const KernelData& data, Size i, Size k, double step) {
    const float* from = data.K + i * data.m;
    double* to = data.S + k * data.m;
    for (Size j = 0; j < data.m; ++j) to[j] += step * static_cast<double>(from[j]);
    data.sums[k] += step;
    data.b[k] += data.inverse_rho * step;
}

}  // namespace polymargin
