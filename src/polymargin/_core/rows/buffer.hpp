// A zeroed array of doubles. Large ones ask for huge pages: sparse rows touch the weights at random, and address
// translation is then a good part of the cost.
#pragma once

#include <cstring>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "basics.hpp"

namespace polymargin {

class Buffer {
public:
    explicit Buffer(Size count) : size_(count), data_(allocate(count), Release{alignment(count)}) { clear(); }

    void clear() { std::memset(data_.get(), 0, size_ * sizeof(double)); }
    double* data() { return data_.get(); }
    const double* data() const { return data_.get(); }
    Size size() const { return size_; }
    double& operator[](Size k) { return data_.get()[k]; }
    double operator[](Size k) const { return data_.get()[k]; }

private:
    static constexpr Size huge_page = Size{1} << 21;

    struct Release {
        std::align_val_t alignment;
        void operator()(double* data) const { ::operator delete(data, alignment); }
    };

    static std::align_val_t alignment(Size count) {
        return std::align_val_t(count * sizeof(double) >= huge_page ? huge_page : 64);
    }

    static double* allocate(Size count) {
        const Size bytes = count * sizeof(double);
        auto* data = static_cast<double*>(::operator new(bytes, alignment(count)));
#if defined(__linux__) && defined(MADV_HUGEPAGE)
        if (bytes >= huge_page) madvise(data, bytes, MADV_HUGEPAGE);
#endif
        return data;
    }

    Size size_;
    std::unique_ptr<double, Release> data_;
};

}  // namespace polymargin
