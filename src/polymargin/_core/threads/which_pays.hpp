// Whether threads pay. What they tell each other costs about as much as a short visit: on few columns, with lists that have become
// short, or where other programs want the processors, one thread is faster. They change no bit, so that a clock may decide.
#pragma once

#include <chrono>
#include <cstdint>

namespace polymargin {

class WhichPays {
public:
    // Which way the next epoch goes: the one that took less time a visit, but now and then the other one. The first epochs are the
    // longest, and threads are most likely to pay there.
    bool threads_next() {
        const bool asks = ++epochs_ % ask_again == first_asked;
        return (alone_ == 0.0 || by_threads_ <= alone_) != asks;
    }

    // It went so, and was as much as `visit_epoch` returns: its visits.
    template <class VisitEpoch>
    void measure(bool by_threads, const VisitEpoch& visit_epoch) {
        const auto began = std::chrono::steady_clock::now();
        const std::int64_t visits = visit_epoch();
        const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
        if (visits > 0) (by_threads ? by_threads_ : alone_) = took.count() / static_cast<double>(visits);
    }

private:
    static constexpr int ask_again = 10, first_asked = 4;  // epochs: what is lost by asking is a tenth of the difference

    double by_threads_ = 0.0, alone_ = 0.0;  // seconds a visit; 0 if not known yet
    int epochs_ = 0;
};

}  // namespace polymargin
