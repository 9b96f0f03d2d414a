#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <type_traits>
#include <utility>
#include <vector>

#include "proto/base/status.h"
#include "runtime/extern_kernels/half_float.h"
#include "runtime/extern_kernels/plain_kernels.h"

namespace kiln {
namespace {

using How = OrderProblem::How;

// How values of a stored type compare: half types as floats.
struct Same {
  template <typename T>
  static T Of(T stored) {
    return stored;
  }
};
struct FromBFloat16 {
  static float Of(uint16_t stored) { return FloatOfBFloat16(stored); }
};
struct FromFloat16 {
  static float Of(uint16_t stored) { return FloatOfFloat16(stored); }
};

template <typename K>
bool IsNan(K x) {
  if constexpr (std::is_floating_point_v<K>) return std::isnan(x);
  return false;
}

// NaN is larger than all numbers.
template <typename K>
bool Above(K a, K b) {
  return (IsNan(a) && !IsNan(b)) || a > b;
}
template <typename K>
bool Below(K a, K b) {
  return (!IsNan(a) && IsNan(b)) || a < b;
}

// A value and where it stood.
template <typename K>
struct Item {
  K key;
  int64_t place;
};

// Hoare's selection with the middle of three as pivot: afterwards items[k] is
// what a sort would put there. The order of exchanges decides which of equal
// values that is, so it is PyTorch's.
template <typename K>
void Select(std::vector<Item<K>>& items, int64_t k) {
  const auto above = [&](int64_t i, int64_t j) {
    return Above(items[i].key, items[j].key);
  };
  const auto exchange_if_above = [&](int64_t i, int64_t j) {
    if (above(i, j)) std::swap(items[i], items[j]);
  };
  int64_t left = 0, right = static_cast<int64_t>(items.size()) - 1;
  while (left + 1 < right) {
    std::swap(items[(left + right) / 2], items[left + 1]);
    exchange_if_above(left + 1, right);
    exchange_if_above(left, right);
    exchange_if_above(left + 1, left);
    const K pivot = items[left].key;
    int64_t low = left + 1, high = right;
    for (;;) {
      do ++low;
      while (Above(pivot, items[low].key));
      do --high;
      while (Above(items[high].key, pivot));
      if (high < low) break;
      std::swap(items[low], items[high]);
    }
    std::swap(items[left], items[high]);
    if (high <= k) left = low;
    if (high >= k) right = high - 1;
  }
  if (left + 1 == right) exchange_if_above(left, right);
}

// Puts the `count` first into their places; with `sorted` in order.
template <typename K, typename Before>
void Top(std::vector<Item<K>>& items, int64_t count, bool sorted,
         Before before) {
  if (count == 0) return;
  const auto first = items.begin();
  const int64_t length = static_cast<int64_t>(items.size());
  // Where PyTorch changes from one algorithm to the other.
  if (count * 64 <= length) {
    std::partial_sort(first, first + count, items.end(), before);
    return;
  }
  std::nth_element(first, first + count - 1, items.end(), before);
  if (sorted) std::sort(first, first + count - 1, before);
}

// The lower of two in the middle comes first. A NaN is the median, the first of
// them, or NaNs are left out of the count.
template <typename K>
void Middle(std::vector<Item<K>>& items, bool ignore_nan) {
  const auto is_nan = [](const Item<K>& item) { return IsNan(item.key); };
  const int64_t nans = std::count_if(items.begin(), items.end(), is_nan);
  if (nans > 0 && !ignore_nan) {
    std::swap(items[0], *std::find_if(items.begin(), items.end(), is_nan));
    return;
  }
  const int64_t numbers = static_cast<int64_t>(items.size()) - nans;
  const int64_t middle = std::max<int64_t>(numbers - 1, 0) / 2;
  std::nth_element(
      items.begin(), items.begin() + middle, items.end(),
      [](const Item<K>& a, const Item<K>& b) { return Below(a.key, b.key); });
  std::swap(items[0], items[middle]);
}

template <typename T, typename Key>
class PlainOrder final : public PreparedCall {
 public:
  PlainOrder(const OrderProblem& problem, ThreadPool& threads)
      : p_(problem), threads_(threads) {}

  absl::Status Run(const ExternBuffers& buffers, Stream) const override {
    const Work work{this, static_cast<const T*>(buffers.operand[0]),
                    static_cast<T*>(buffers.operand[1]),
                    static_cast<int64_t*>(buffers.operand[2])};
    threads_.ParallelFor(
        p_.rows, std::max<int64_t>(1, kItemsAThread / (p_.length + 1)),
        [](void* context, int64_t begin, int64_t end) {
          const Work& work = *static_cast<const Work*>(context);
          work.self->RunRows(work, begin, end);
        },
        const_cast<Work*>(&work));
    return absl::OkStatus();
  }

  absl::string_view library() const override { return "own loops"; }

 private:
  using K = decltype(Key::Of(T{}));
  // Fewer are not worth a thread.
  static constexpr int64_t kItemsAThread = 4096;

  struct Work {
    const PlainOrder* self;
    const T* x;
    T* values;
    int64_t* places;
  };

  void RunRows(const Work& work, int64_t begin, int64_t end) const {
    std::vector<Item<K>> items;
    for (int64_t row = begin; row < end; ++row) {
      const T* const x = work.x + row * p_.x_row;
      items.resize(p_.length);
      for (int64_t i = 0; i < p_.length; ++i) {
        items[i] = {Key::Of(x[i * p_.x_column]), i};
      }
      Arrange(items);
      for (int64_t i = 0; i < p_.count; ++i) {
        const int64_t place = items[i].place;
        work.values[row * p_.values_row + i * p_.values_column] =
            x[place * p_.x_column];
        work.places[row * p_.places_row + i * p_.places_column] = place;
      }
    }
  }

  void Arrange(std::vector<Item<K>>& items) const {
    const auto above = [](const Item<K>& a, const Item<K>& b) {
      return Above(a.key, b.key);
    };
    const auto below = [](const Item<K>& a, const Item<K>& b) {
      return Below(a.key, b.key);
    };
    switch (p_.how) {
      case How::kSort:
        if (p_.largest) {
          std::stable_sort(items.begin(), items.end(), above);
        } else {
          std::stable_sort(items.begin(), items.end(), below);
        }
        return;
      case How::kTop:
      case How::kTopUnsorted:
        if (p_.largest) {
          Top(items, p_.count, p_.how == How::kTop, above);
        } else {
          Top(items, p_.count, p_.how == How::kTop, below);
        }
        return;
      case How::kKth:
        Select(items, p_.k);
        std::swap(items[0], items[p_.k]);
        return;
      case How::kMedian:
      case How::kNanMedian:
        Middle(items, p_.how == How::kNanMedian);
        return;
    }
  }

  const OrderProblem p_;
  ThreadPool& threads_;
};

template <typename T, typename Key = Same>
std::shared_ptr<const PreparedCall> Make(const OrderProblem& problem,
                                         ThreadPool& threads) {
  return std::make_shared<PlainOrder<T, Key>>(problem, threads);
}

}  // namespace

std::shared_ptr<const PreparedCall> PreparePlainOrder(
    const OrderProblem& problem, ThreadPool& threads) {
  switch (problem.dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return Make<uint8_t>(problem, threads);
    case DType::kInt8:
      return Make<int8_t>(problem, threads);
    case DType::kInt16:
      return Make<int16_t>(problem, threads);
    case DType::kInt32:
      return Make<int32_t>(problem, threads);
    case DType::kInt64:
      return Make<int64_t>(problem, threads);
    case DType::kFloat16:
      return Make<uint16_t, FromFloat16>(problem, threads);
    case DType::kBFloat16:
      return Make<uint16_t, FromBFloat16>(problem, threads);
    case DType::kFloat32:
      return Make<float>(problem, threads);
    case DType::kFloat64:
      break;
  }
  return Make<double>(problem, threads);
}

}  // namespace kiln
