// Integer ids of distinct types, which cannot be confused.
#ifndef DPIPE_CORE_BASE_STRONG_ID_H_
#define DPIPE_CORE_BASE_STRONG_ID_H_

#include <functional>
#include <ostream>

namespace dpipe {

template <typename Tag>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(int value) : value_(value) {}
  constexpr int value() const { return value_; }

  friend constexpr bool operator==(StrongId a, StrongId b) { return a.value_ == b.value_; }
  friend constexpr bool operator!=(StrongId a, StrongId b) { return a.value_ != b.value_; }
  friend constexpr bool operator<(StrongId a, StrongId b) { return a.value_ < b.value_; }
  friend std::ostream& operator<<(std::ostream& out, StrongId id) { return out << id.value_; }
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  int value_ = -1;
};

using Rank = StrongId<struct RankTag>;                // one rank drives one device
using StageId = StrongId<struct StageIdTag>;          // in a plan
using MicroBatchId = StrongId<struct MicroBatchTag>;  // in a step
using ValueId = StrongId<struct ValueIdTag>;          // in a program

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_STRONG_ID_H_
