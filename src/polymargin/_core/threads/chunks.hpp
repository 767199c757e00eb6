// A sum over all rows with several threads. Chunks are fixed and added in order, so the number of threads changes no bit.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

// `term(i, workspace)` is what row i adds to `zero`; `make_workspace()` is called once a thread. Only the calling thread polls.
template <class Sum, class MakeWorkspace, class Term>
Sum sum_over_rows(Size n, int n_threads, const Poll& poll, Sum zero, const MakeWorkspace& make_workspace, const Term& term) {
    constexpr Size chunk = 2048;
    const Size n_chunks = (n + chunk - 1) / chunk;
    const Size n_workers = std::min<Size>(n_chunks, static_cast<Size>(std::max(1, n_threads)));
    std::vector<Sum> sums(n_chunks, zero);
    auto work = [&](Size first, bool polls) {
        auto workspace = make_workspace();
        for (Size b = first; b < n_chunks; b += n_workers) {
            for (Size i = b * chunk; i < std::min(n, (b + 1) * chunk); ++i) {
                sums[b] += term(i, workspace);
                if (polls && (i & 63) == 0) poll();
            }
        }
    };
    std::vector<std::thread> workers;
    auto join = [&] {
        for (auto& worker : workers) worker.join();
    };
    try {
        for (Size t = 1; t < n_workers; ++t) workers.emplace_back(work, t, false);
        if (n_workers > 0) work(0, true);
    } catch (...) {
        join();
        throw;
    }
    join();
    for (const Sum& sum : sums) zero += sum;
    return zero;
}

}  // namespace polymargin
