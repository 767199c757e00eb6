// The native module: nanobind, and nothing else.
#include "bindings.hpp"

NB_MODULE(PM_MODULE, m) {
    polymargin::bind_storages(m);
    polymargin::bind_rows(m);
    polymargin::bind_labels(m);
    polymargin::bind_scores(m);
    polymargin::bind_band(m);
    polymargin::bind_kernel(m);

    m.def("supports_v3", [] {
#if defined(__x86_64__) && (defined(__GNUC__) || defined(__clang__))
        __builtin_cpu_init();
        return static_cast<bool>(__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                                 __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2"));
#else
        return false;
#endif
    });
}
