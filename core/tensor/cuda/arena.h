// Blocks in a range of addresses.
#ifndef DPIPE_CORE_TENSOR_CUDA_ARENA_H_
#define DPIPE_CORE_TENSOR_CUDA_ARENA_H_

#include <cstdint>
#include <map>

namespace dpipe::cuda {

// Each goes to the lowest place where it fits, so that the same requests in the same order get the
// same places. Linear in the number of blocks. Not thread-safe.
class Arena {
 public:
  // The place of a new block of size_bytes > 0: how far from the range's beginning.
  int64_t Place(int64_t size_bytes);
  void Remove(int64_t place);

  bool empty() const { return blocks_.empty(); }
  // Where the range would have to end for all blocks that there ever were.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::map<int64_t, int64_t> blocks_;  // from where to where
  int64_t most_bytes_ = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_ARENA_H_
