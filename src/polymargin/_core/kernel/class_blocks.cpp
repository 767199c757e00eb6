// Blocks of K a class.
#include "class_blocks.hpp"

#include <algorithm>

namespace polymargin {
namespace {

constexpr Size cached_values = 600'000;  // 2.4 MB: of the second and third cache
constexpr Size fewest_rows = 512;        // fewer cost more to begin and to end than to solve

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
    : data_(data), counts_(data.c), members_(data.c), score_begin_(data.c + 1), block_begin_(data.c) {}

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
    scores_.resize(entries_.size());
    moved_.assign(entries_.size(), 0.0f);
    blocks_.resize(squares_);
    Size block = 0, score = 0;
    for (Size k = 0; k < data_.c; ++k) {
        auto& members = members_[k];
        block_begin_[k] = block;
        score_begin_[k] = score;
        block += members.size() * members.size();
        score += members.size();
        if (shares) continue;
        for (auto& member : members) member = rows_[member];  // its column of K
    }
    for (Size r = 0; r < rows_.size(); ++r) {  // each row is read from memory once for all of its classes
        const float* from = shares ? shared_.data() + r * rows_.size() : data_.K + rows_[r] * data_.m;
        for (Size e = begin_[r]; e < begin_[r + 1]; ++e) {
            const Size k = static_cast<Size>(entries_[e].k), at = entries_[e].at, n = members_[k].size();
            const std::uint32_t* columns = members_[k].data();
            float* to = blocks_.data() + block_begin_[k] + at * n;
            for (Size j = 0; j < n; ++j) to[j] = from[columns[j]];
            scores_[score_begin_[k] + at] = data_.S[k * data_.m + rows_[r]];
        }
        if ((r & 31) == 0) poll();
    }
    before_.resize(entries_.size());
    for (Size r = 0; r < rows_.size(); ++r) {
        for (Size e = begin_[r]; e < begin_[r + 1]; ++e) before_[e] = dual(r, e);
    }
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

void ClassBlocks::add(const Entry& e, double step) {
    const Size k = static_cast<Size>(e.k), n = members_[k].size();
    const float* from = blocks_.data() + block_begin_[k] + e.at * n;
    float* to = moved_.data() + score_begin_[k];
    const float scaled = static_cast<float>(step * data_.metric.scale(k));
    for (Size j = 0; j < n; ++j) to[j] += scaled * from[j];
    shift(e.k, step);
}

void ClassBlocks::shift(Index k, double step) {
    data_.sums[k] += step;
    data_.b[k] += data_.inverse_rho * step;
}

void ClassBlocks::join_average() {
    if (n_averaged_++ == 0) average_.assign(entries_.size(), 0.0);
    const double share = 1.0 / static_cast<double>(n_averaged_);
    for (Size r = 0; r < rows_.size(); ++r) {
        for (Size e = begin_[r] + 1; e < begin_[r + 1]; ++e) average_[e] += share * (dual(r, e) - average_[e]);
    }
}

void ClassBlocks::take_average() {
    if (n_averaged_ < 2) return;
    for (Size r = 0; r < rows_.size(); ++r) {
        double own = 0.0;
        for (Size e = begin_[r] + 1; e < begin_[r + 1]; ++e) {
            const double step = average_[e] - dual(r, e);
            if (step == 0.0) continue;
            dual(r, e) = average_[e];
            shift(entries_[e].k, -step);
            own += step;
        }
        if (own != 0.0) shift(entries_[begin_[r]].k, own);
    }
}

void ClassBlocks::list_steps(Steps& steps) const {
    steps.resize(data_.c);
    for (auto& list : steps) list.clear();
    for (Size r = 0; r < rows_.size(); ++r) {
        double own = 0.0;
        for (Size e = begin_[r] + 1; e < begin_[r + 1]; ++e) {
            const double step = dual(r, e) - before_[e];
            if (step == 0.0) continue;
            own += step;
            steps[static_cast<Size>(entries_[e].k)].push_back({rows_[r], static_cast<float>(-step)});
        }
        if (own != 0.0) steps[static_cast<Size>(entries_[begin_[r]].k)].push_back({rows_[r], static_cast<float>(own)});
    }
}

}  // namespace polymargin
