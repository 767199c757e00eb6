// Blocks of K a class.
#include "class_blocks.hpp"

#include <algorithm>

namespace polymargin {
namespace {

constexpr Size cached_values = 2'400'000;  // 9.6 MB, of the third cache: with many classes all rows are often one block
constexpr Size fewest_rows = 512;          // fewer cost more to begin and to end than to solve

// Sums over rows of whole vectors of floats have no rest.
Size whole_vectors(Size n) { return (n + 7) & ~Size{7}; }

// All of the next row of K is asked for: columns of its classes lie in most of its cache lines, in no order that hardware sees.
void expect(const float* row, Size n) {
    for (Size j = 0; j < n; j += 16) PM_PREFETCH(row + j);
}

}  // namespace

void ClassLists::clear() {
    rows.clear();
    begin.clear();
    classes.clear();
}

void ClassLists::open(Size row) {
    rows.push_back(static_cast<std::uint32_t>(row));
    begin.push_back(classes.size());
}

ClassBlocks::ClassBlocks(const KernelData& data)
    : data_(data), counts_(data.c), members_(data.c), score_begin_(data.c), block_begin_(data.c), width_(data.c) {}

Size ClassBlocks::take(const ClassLists& lists, const std::vector<std::uint32_t>& order, Size at) {
    std::fill(counts_.begin(), counts_.end(), Size{0});
    taken_.clear();
    squares_ = 0;
    for (; at < order.size(); ++at) {
        const Size first = lists.begin[order[at]], last = lists.begin[order[at] + 1];
        Size more = 0;
        for (Size e = first; e < last; ++e) more += 2 * counts_[static_cast<Size>(lists.classes[e])] + 1;
        if (squares_ + more > cached_values && taken_.size() >= fewest_rows) break;
        squares_ += more;
        for (Size e = first; e < last; ++e) ++counts_[static_cast<Size>(lists.classes[e])];
        taken_.push_back(order[at]);
    }
    std::sort(taken_.begin(), taken_.end());  // K is read from left to right

    rows_.clear();
    begin_.clear();
    entries_.clear();
    for (auto& members : members_) members.clear();
    for (const std::uint32_t r : taken_) {
        begin_.push_back(entries_.size());
        for (Size e = lists.begin[r]; e < lists.begin[r + 1]; ++e) {
            auto& members = members_[static_cast<Size>(lists.classes[e])];
            entries_.push_back({lists.classes[e], static_cast<std::uint32_t>(members.size())});
            members.push_back(static_cast<std::uint32_t>(rows_.size()));
        }
        rows_.push_back(lists.rows[r]);
    }
    begin_.push_back(entries_.size());
    return at;
}

void ClassBlocks::gather(const Poll& poll) {
    // where most rows list most classes, kernel values are fetched once for all of them
    const bool shares = squares_ > rows_.size() * rows_.size();
    if (shares) gather_rows(poll);
    Size block = 0, score = 0;
    for (Size k = 0; k < data_.c; ++k) {
        auto& members = members_[k];
        width_[k] = whole_vectors(members.size());
        block_begin_[k] = block;
        score_begin_[k] = score;
        block += members.size() * width_[k];
        score += width_[k];
        if (shares) continue;
        for (auto& member : members) member = rows_[member];  // its column of K
    }
    moved_.assign(score, 0.0f);
    blocks_.resize(block);
    scores_.resize(entries_.size());
    duals_.resize(entries_.size());
    diagonal_.resize(rows_.size());
    for (Size r = 0; r < rows_.size(); ++r) {  // each row is read from memory once for all of its classes
        const Size i = rows_[r];
        const float *K = data_.K + i * data_.m, *from = shares ? shared_.data() + r * rows_.size() : K;
        if (!shares && r + 1 < rows_.size()) expect(data_.K + rows_[r + 1] * data_.m, data_.m);
        diagonal_[r] = static_cast<double>(K[i]);
        for (Size e = begin_[r]; e < begin_[r + 1]; ++e) {
            const Size k = static_cast<Size>(entries_[e].k), n = members_[k].size();
            const std::uint32_t* columns = members_[k].data();
            float* to = blocks_.data() + block_begin_[k] + entries_[e].at * width_[k];
            for (Size j = 0; j < n; ++j) to[j] = from[columns[j]];
            std::fill(to + n, to + width_[k], 0.0f);
            scores_[e] = data_.S[k * data_.m + i];
            duals_[e] = data_.a[i * data_.c + k];
        }
        if ((r & 31) == 0) poll();
    }
    before_ = duals_;
    n_averaged_ = 0;
}

void ClassBlocks::gather_rows(const Poll& poll) {
    const Size n = rows_.size();
    shared_.resize(n * n);
    for (Size i = 0; i < n; ++i) {
        const float* from = data_.K + rows_[i] * data_.m;
        float* to = shared_.data() + i * n;
        for (Size j = 0; j < n; ++j) to[j] = from[rows_[j]];
        if ((i & 63) == 0) poll();
    }
}

void ClassBlocks::add(Size e, double step) {
    const Index label = entries_[e].k;
    const Size k = static_cast<Size>(label), n = width_[k];
    const float* from = blocks_.data() + block_begin_[k] + entries_[e].at * n;
    float* to = moved_.data() + score_begin_[k];
    const float scaled = static_cast<float>(step * data_.metric.scale(k));
    for (Size j = 0; j < n; ++j) to[j] += scaled * from[j];
    shift(label, step);
}

void ClassBlocks::shift(Index k, double step) {
    data_.sums[k] += step;
    data_.b[k] += data_.inverse_rho * step;
}

void ClassBlocks::join_average() {
    if (n_averaged_++ == 0) average_.assign(entries_.size(), 0.0);
    const double share = 1.0 / static_cast<double>(n_averaged_);
    for (Size e = 0; e < entries_.size(); ++e) average_[e] += share * (duals_[e] - average_[e]);
}

void ClassBlocks::take_average() {
    if (n_averaged_ < 2) return;
    for (Size r = 0; r < rows_.size(); ++r) {
        double own = 0.0;
        for (Size e = begin_[r] + 1; e < begin_[r + 1]; ++e) {
            const double step = average_[e] - duals_[e];
            if (step == 0.0) continue;
            duals_[e] = average_[e];
            shift(entries_[e].k, -step);
            own += step;
        }
        if (own != 0.0) shift(entries_[begin_[r]].k, own);
    }
}

void ClassBlocks::put_back(Carry<float>& steps) {
    steps.clear();
    for (Size r = 0; r < rows_.size(); ++r) {
        steps.open_row(data_.K + rows_[r] * data_.m);
        double own = 0.0;
        for (Size e = begin_[r] + 1; e < begin_[r + 1]; ++e) {
            const Size k = static_cast<Size>(entries_[e].k);
            const double step = duals_[e] - before_[e];
            if (step == 0.0) continue;
            data_.a[rows_[r] * data_.c + k] = duals_[e];
            own += step;
            steps.add(k, static_cast<float>(-step));
        }
        if (own != 0.0) steps.add(static_cast<Size>(entries_[begin_[r]].k), static_cast<float>(own));
    }
}

}  // namespace polymargin
