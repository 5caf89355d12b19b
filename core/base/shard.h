// The division of a tensor's elements among ranks.
#ifndef DPIPE_CORE_BASE_SHARD_H_
#define DPIPE_CORE_BASE_SHARD_H_

#include <cstdint>

namespace dpipe {

// Part number `index` of `count` equal parts.
struct Shard {
  int index = 0;
  int count = 1;

  // Of n consecutive elements, part i is [n i / count, n (i + 1) / count). Sizes differ by at most
  // one element and may be 0.
  int64_t Begin(int64_t n) const { return n * index / count; }
  int64_t End(int64_t n) const { return n * (index + 1) / count; }
  int64_t Size(int64_t n) const { return End(n) - Begin(n); }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_SHARD_H_
