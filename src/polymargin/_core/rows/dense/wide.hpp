// Kernels of dense rows for processors with registers of eight doubles (AVX-512): chosen when rows are opened, since most builds are for
// processors without them.
#pragma once

#include "kernels.hpp"

namespace polymargin {

template <class T>
struct WideKernels {
    void (*scores)(const DenseData<T>&, const double*, Size, const Index*, Size, double*);
    void (*scores_of_rows)(const DenseData<T>&, const double*, const Size*, Size, Size, Size, double* const*);
    void (*add)(const DenseData<T>&, double*, Size, const Index*, const double*, Size);

#if defined(POLYMARGIN_WIDE)
    static const WideKernels* of_this_processor();
#else
    static const WideKernels* of_this_processor() { return nullptr; }
#endif
};

}  // namespace polymargin
