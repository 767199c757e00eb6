// Threads that share small pieces of work.
#include "team.hpp"

#if defined(__x86_64__) || defined(__i386__)
#include <immintrin.h>
#define PM_PAUSE() _mm_pause()
#elif defined(__aarch64__) && (defined(__GNUC__) || defined(__clang__))
#define PM_PAUSE() __asm__ volatile("yield")
#else
#define PM_PAUSE() ((void)0)
#endif

namespace polymargin {
namespace {

// Spins; who has spun for long lets others have the processor now and then.
class Patience {
public:
    void wait() {
        PM_PAUSE();
        if (++turns_ > 4096) std::this_thread::yield();
    }

private:
    int turns_ = 0;
};

}  // namespace

Team::Team(int n_threads) {
    try {
        // their number is known before the first of them chooses a piece: there is none yet
        for (int t = 1; t < n_threads; ++t) workers_.emplace_back([this, t] { wait_for_work(static_cast<Size>(t)); });
    } catch (...) {  // as many as the system has given
    }
    size_ = workers_.size() + 1;
}

Team::~Team() {
    over_.store(true, std::memory_order_release);
    for (auto& worker : workers_) worker.join();
}

// The owner's first piece is never offered, so that it begins at once: a cache line that changes hands is what a round costs.
void Team::run(Size count) {
    const std::uint64_t before = done_.load(std::memory_order_relaxed), last = round_.load(std::memory_order_relaxed) >> most_pieces;
    round_.store((last + 1) << most_pieces | ((std::uint64_t{1} << count) - 2), std::memory_order_release);
    do_piece(0);
    const Size by_others = count - 1 - work(0);
    for (Patience patience; done_.load(std::memory_order_acquire) - before < by_others;) patience.wait();
    if (failed_.load(std::memory_order_relaxed)) {
        failed_.store(false, std::memory_order_relaxed);
        std::rethrow_exception(error_);
    }
}

Size Team::choose(std::uint32_t left, Size thread) const {
    for (Size k = thread; k < most_pieces; k += size_) {
        if (left >> k & 1u) return k;
    }
    Size k = 0;
    while (!(left >> k & 1u)) ++k;
    return k;
}

void Team::do_piece(Size piece) {
    try {
        call_(piece_, first_ + piece);
    } catch (...) {
        if (!failed_.exchange(true, std::memory_order_acq_rel)) error_ = std::current_exception();
    }
}

Size Team::work(Size thread) {
    Size pieces = 0;
    std::uint64_t round = round_.load(std::memory_order_acquire);
    while (left(round) != 0) {
        const Size piece = choose(left(round), thread);
        const std::uint64_t without = round & ~(std::uint64_t{1} << piece);
        if (!round_.compare_exchange_weak(round, without, std::memory_order_acq_rel, std::memory_order_acquire)) continue;
        do_piece(piece);
        ++pieces;
        if (thread != 0) done_.fetch_add(1, std::memory_order_release);
        round = round_.load(std::memory_order_acquire);
    }
    return pieces;
}

void Team::wait_for_work(Size thread) {
    for (Patience patience; !over_.load(std::memory_order_acquire);) {
        if (left(round_.load(std::memory_order_acquire)) != 0) {
            work(thread);
            patience = Patience();
        } else {
            patience.wait();
        }
    }
}

}  // namespace polymargin
