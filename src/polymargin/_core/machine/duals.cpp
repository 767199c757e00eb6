// How rows of duals grow.
#include "duals.hpp"

namespace polymargin {

void DualRows::move_to_end(Slot& s, Size count) {
    waste_ += static_cast<Size>(s.capacity);
    s.count = s.active = 0;
    if (waste_ > labels_.size() / 2) compact();
    const Size capacity = count + count / 2;  // slack, so that a growing row does not move every time
    s.start = labels_.size();
    s.capacity = static_cast<Index>(capacity);
    labels_.resize(s.start + capacity);
    values_.resize(s.start + capacity);
}

void DualRows::compact() {
    Size live = 0;
    for (const Slot& s : slots_) live += static_cast<Size>(s.count);
    Labels labels = labels_;
    std::vector<double> values(live);
    Size at = 0;
    for (Slot& s : slots_) {
        for (Index k = 0; k < s.count; ++k) labels.set(at + static_cast<Size>(k), label(s, k));
        std::copy_n(values_.data() + s.start, s.count, values.data() + at);
        s.start = at;
        s.capacity = s.count;
        at += static_cast<Size>(s.count);
    }
    labels.resize(live);
    labels_ = std::move(labels);
    values_.swap(values);
    waste_ = 0;
}

}  // namespace polymargin
