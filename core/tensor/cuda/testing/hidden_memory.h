// Memory that the host cannot touch, like a GPU's: access without a Leave object crashes.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_HIDDEN_MEMORY_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_HIDDEN_MEMORY_H_

#include <cstdint>

namespace dpipe::cuda {

// Must be used under the owner's lock. Blocks are never freed.
class HiddenMemory {
 public:
  HiddenMemory();
  ~HiddenMemory();
  HiddenMemory(const HiddenMemory&) = delete;
  HiddenMemory& operator=(const HiddenMemory&) = delete;

  // Returns a block aligned to 512 bytes, with unspecified contents.
  char* Allocate(int64_t size_bytes);

  // Permits access to all blocks during its lifetime.
  class Leave {
   public:
    explicit Leave(HiddenMemory* memory);  // may be null
    ~Leave();
    Leave(const Leave&) = delete;
    Leave& operator=(const Leave&) = delete;

   private:
    HiddenMemory* const memory_;
  };

 private:
  void Protect(int protection);

  char* const reserved_;
  char* begin_ = nullptr;
  int64_t used_bytes_ = 0;
};

}  // namespace dpipe::cuda

#endif  // DPIPE_CORE_TENSOR_CUDA_TESTING_HIDDEN_MEMORY_H_
