// First-fit placement of blocks in a range of addresses.
#ifndef DPIPE_CORE_TENSOR_CUDA_ARENA_H_
#define DPIPE_CORE_TENSOR_CUDA_ARENA_H_

#include <cstdint>
#include <map>

namespace dpipe::cuda {

// Places each block at the lowest offset where it fits, so the same requests in the same order get
// the same offsets. Each call is linear in the number of live blocks. Not thread-safe.
class Arena {
 public:
  // Returns the offset in bytes of a new block of size_bytes > 0 from the beginning of the range.
  int64_t Place(int64_t size_bytes);
  void Remove(int64_t place);

  bool empty() const { return blocks_.empty(); }
  // Returns the size in bytes of the smallest range that would have held all blocks placed so far.
  int64_t most_bytes() const { return most_bytes_; }

 private:
  std::map<int64_t, int64_t> blocks_;  // begin offset to end offset
  int64_t most_bytes_ = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_ARENA_H_
