// Memory that crashes whoever touches it without leave: what a GPU's is to the host.
#ifndef DPIPE_CORE_TENSOR_CUDA_TESTING_HIDDEN_MEMORY_H_
#define DPIPE_CORE_TENSOR_CUDA_TESTING_HIDDEN_MEMORY_H_

#include <cstdint>

namespace dpipe::cuda {

// Used under the owner's lock. Blocks are never given back.
class HiddenMemory {
 public:
  HiddenMemory();
  ~HiddenMemory();
  HiddenMemory(const HiddenMemory&) = delete;
  HiddenMemory& operator=(const HiddenMemory&) = delete;

  // Aligned to 512 bytes, its bytes unspecified.
  char* Allocate(int64_t size_bytes);

  // While it lives all blocks may be touched.
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
