// Dividing a tensor's elements among ranks.
#ifndef DPIPE_CORE_BASE_SHARD_H_
#define DPIPE_CORE_BASE_SHARD_H_

#include <cstdint>

namespace dpipe {

// Number `index` of `count` equal holders.
struct Shard {
  int index = 0;
  int count = 1;

  // If there are n elements in a row, holder i has [n i / count, n (i + 1) / count): shards differ
  // by one element at most, and may be empty.
  int64_t Begin(int64_t n) const { return n * index / count; }
  int64_t End(int64_t n) const { return n * (index + 1) / count; }
  int64_t Size(int64_t n) const { return End(n) - Begin(n); }
};

}  // namespace dpipe

#endif  // DPIPE_CORE_BASE_SHARD_H_
