// What a domain does with rows of the kernel dual: gaps, the classes that matter to a row, and sweeps over a few hundred rows
// whose blocks of K and scores fit a processor's cache (class_blocks.hpp).
//
// Scores are kept up to date, so that looking at a row costs as much as it lists classes, and only moving one costs more:
// rows whose gap is far below the average are looked at, not moved. A move goes a little further than the row alone would
// (over-relaxation, with a curvature that is too small by `relaxation`): as long as that is below 2 the dual never falls.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "class_blocks.hpp"
#include "domains/common/row_view.hpp"
#include "domains/common/solve_in.hpp"
#include "metrics/class_scales.hpp"
#include "metrics/identity.hpp"

namespace polymargin {

// One row's arrays, and how its view is gathered.
class RowDesk {
public:
    // With room for the own class behind all others.
    explicit RowDesk(Size c)
        : classes_(c + 1), parked_(c), parked_duals_(c), a_(c), g_(c), next_(c + 1), scratch_(c + 1) {}

    // All classes.
    RowView look(const KernelData& data, Size i) {
        RowView row = empty(data, i);
        for (Size k = 0; k < data.c; ++k) {
            if (static_cast<Index>(k) != row.y) put(row, static_cast<Index>(k), data.a[i * data.c + k], data.score(i, k));
        }
        row.g_target = data.score(i, static_cast<Size>(row.y)) - 1.0;
        return row;
    }

    // Those that row r of the blocks lists; a class goes by its number in the list.
    RowView look(const KernelData& data, const ClassBlocks& blocks, Size r) {
        const Size i = blocks.row(r), own = blocks.begin(r);
        RowView row = empty(data, i);
        for (Size e = own + 1; e < blocks.end(r); ++e) {
            const Size k = static_cast<Size>(blocks.entry(e).k);
            put(row, static_cast<Index>(e - own), blocks.dual(e), data.wanted(i, k, blocks.score(e)));
        }
        row.g_target = data.wanted(i, static_cast<Size>(row.y), blocks.score(own)) - 1.0;
        return row;
    }

private:
    RowView empty(const KernelData& data, Size i) {
        return {{classes_.data(), a_.data(), g_.data(), next_.data(), scratch_.data(), 0, 0.0, false},
                data.cost[i], data.y[i], true, parked_.data(), parked_duals_.data(), 0};
    }

    static void put(RowView& row, Index name, double dual, double score) {
        row.classes[row.count] = name;
        row.a[row.count] = dual;
        row.g[row.count++] = score;
    }

    std::vector<Index> classes_, parked_;
    std::vector<double> parked_duals_, a_, g_, next_, scratch_;
};

class KernelRows {
public:
    virtual ~KernelRows() = default;

    // Gaps of all rows at scores S + b, and the sum of their weighted losses.
    virtual double gaps(const KernelData& data, double* out, const Poll& poll) = 0;

    // Lists the rows whose gap is above `quiet`, each with the classes that can matter to it; returns the gap of all.
    virtual double list(const KernelData& data, double quiet, ClassLists& lists, const Poll& poll) = 0;

    // Visits rows of the blocks and moves those whose gap is above `quiet`; returns the gap of all as seen on their lists.
    virtual double sweep(const KernelData& data, ClassBlocks& blocks, const std::vector<std::uint32_t>& order, double quiet,
                         const Poll& poll) = 0;
};

template <class Domain>
class KernelBlock final : public KernelRows {
public:
    KernelBlock(const Domain& domain, Size c) : domain_(domain), desk_(c), scales_(c + 1) {}

    double gaps(const KernelData& data, double* out, const Poll& poll) override {
        std::vector<double> scores(data.c);
        double total = 0.0;
        for (Size i = 0; i < data.m; ++i) {
            if ((i & 63) == 0) poll();
            for (Size k = 0; k < data.c; ++k) scores[k] = data.score(i, k);
            total += data.cost[i] * domain_.loss(scores.data(), data.c, static_cast<Size>(data.y[i]));
            RowView row = desk_.look(data, i);
            out[i] = domain_.assess(row, infinity).gap;
        }
        return total;
    }

    double list(const KernelData& data, double quiet, ClassLists& lists, const Poll& poll) override {
        double gap = 0.0;
        lists.clear();
        for (Size i = 0; i < data.m; ++i) {
            if ((i & 63) == 0) poll();
            RowView row = desk_.look(data, i);
            const Assessment seen = domain_.assess(row, 0.0);
            gap += seen.gap;
            if (!(seen.violation > 0.0 && seen.gap > quiet)) continue;
            lists.open(i);
            lists.classes.push_back(row.y);
            lists.classes.insert(lists.classes.end(), row.classes, row.classes + row.count);
            lists.classes.insert(lists.classes.end(), row.parked_classes, row.parked_classes + row.n_parked);
        }
        lists.close();
        return gap;
    }

    double sweep(const KernelData& data, ClassBlocks& blocks, const std::vector<std::uint32_t>& order, double quiet,
                 const Poll& poll) override {
        double gap = 0.0;
        Size moved = 0;
        for (const std::uint32_t r : order) {
            RowView row = desk_.look(data, blocks, r);
            const Assessment seen = domain_.assess(row, infinity);
            gap += seen.gap;
            if (!(seen.violation > 0.0 && seen.gap > quiet)) continue;
            solve(data, blocks, r, row);
            move(blocks, r, row);
            if ((++moved & 63) == 0) poll();
        }
        return gap;
    }

private:
    static constexpr double relaxation_ = 1.4;

    void solve(const KernelData& data, const ClassBlocks& blocks, Size r, RowView& row) {
        const double q = blocks.diagonal(r) / relaxation_, offset = data.inverse_rho / relaxation_;
        if (!data.metric.scales) return domain_.solve(row, Identity{q + offset});
        const Size first = blocks.begin(r);
        for (Size e = first; e < blocks.end(r); ++e) scales_[e - first] = data.metric.scales[blocks.entry(e).k];
        const Index own = row.y;
        row.y = 0;  // its number in the list
        solve_in(ClassScales{scales_.data(), q + offset, offset}, domain_, row);
        row.y = own;
    }

    static void move(ClassBlocks& blocks, Size r, const RowView& row) {
        const Size first = blocks.begin(r);
        double own = 0.0;
        for (Size k = 0; k < row.count; ++k) {
            const double step = row.next[k] - row.a[k];
            if (step == 0.0) continue;
            const Size e = first + static_cast<Size>(row.classes[k]);
            blocks.set_dual(e, row.next[k]);
            blocks.add(e, -step);
            own += step;
        }
        if (row.target_active && own != 0.0) blocks.add(first, own);
    }

    const Domain domain_;
    RowDesk desk_;
    std::vector<double> scales_;  // of the classes that a row lists
};

}  // namespace polymargin
