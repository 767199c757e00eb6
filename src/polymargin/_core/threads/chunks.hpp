// A sum over all rows with several threads. Chunks are fixed and added in order, so the number of threads changes no bit.
#pragma once

#include <algorithm>
#include <thread>
#include <vector>

#include "rows/basics.hpp"

namespace polymargin {

constexpr Size at_a_time = 16;  // rows of a block

// `add(first, last, workspace, sum)` adds the rows from `first` to before `last`, at most `at_a_time` of them, to `sum`; `make_workspace()` is
// called once a thread. Only the calling thread polls.
template <class Sum, class MakeWorkspace, class Add>
Sum sum_over_blocks(Size n, int n_threads, const Poll& poll, Sum zero, const MakeWorkspace& make_workspace, const Add& add) {
    constexpr Size block = at_a_time, chunk = 32 * block;
    const Size n_chunks = (n + chunk - 1) / chunk;
    const Size n_workers = std::min<Size>(n_chunks, static_cast<Size>(std::max(1, n_threads)));
    std::vector<Sum> sums(n_chunks, zero);
    auto work = [&](Size number, bool polls) {
        auto workspace = make_workspace();
        for (Size b = number; b < n_chunks; b += n_workers) {
            for (Size first = b * chunk; first < std::min(n, (b + 1) * chunk); first += block) {
                add(first, std::min(n, first + block), workspace, sums[b]);
                if (polls && (first & 63) == 0) poll();
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

// The same row by row: term(i, workspace).
template <class Sum, class MakeWorkspace, class Term>
Sum sum_over_rows(Size n, int n_threads, const Poll& poll, Sum zero, const MakeWorkspace& make_workspace, const Term& term) {
    return sum_over_blocks(n, n_threads, poll, zero, make_workspace, [&](Size first, Size last, auto& workspace, Sum& sum) {
        for (Size i = first; i < last; ++i) sum += term(i, workspace);
    });
}

}  // namespace polymargin
