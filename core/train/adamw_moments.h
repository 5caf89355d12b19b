// What AdamW remembers of a parameter's gradients: their mean m and the mean v of their squares.
#ifndef DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_
#define DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/ops/block_quantized.h"
#include "core/tensor/tensor.h"

namespace dpipe {

enum class MomentsFormat {
  kFp32,  // 8 bytes a number of the parameter
  // 2 bytes a number, and 8 a block: m and the root of v in 8 bits, block-wise (BlockQuantized).
  // The root, because v itself spans twice the decades, more than codes reach; where v was rounded
  // to 0, Adam would divide by nothing.
  kInt8,
};

class AdamWMoments {
 public:
  // Zero, shaped as `parameter` and on its device. `block_size`: of kInt8.
  AdamWMoments(MomentsFormat format, int block_size, const Tensor& parameter);

  // fp32, to be updated in place and then given to Store. Of kFp32 these are the moments
  // themselves, of kInt8 copies.
  struct Pair {
    Tensor m, v;
  };
  Pair Load() const;
  void Store(const Pair& pair);

  // What a saved run has of it, fp32 by name: "m" and "v"; of kInt8 "m" and "root_v". Import takes
  // over what has been written into the tensors that the last Export gave. Importing what was
  // exported changes nothing, in either format.
  std::vector<std::pair<std::string, Tensor>> Export();
  void Import();
  // Forgets what was exported.
  void DropExports() { exported_.reset(); }

  int64_t size_bytes() const;

 private:
  const MomentsFormat format_;
  Pair fp32_;                       // of kFp32
  std::shared_ptr<Device> device_;  // of kInt8, with the shape
  Shape shape_;
  std::unique_ptr<ops::BlockQuantized> m_, root_v_;  // of kInt8
  std::optional<Pair> exported_;                     // of kInt8: m and the root of v
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_ADAMW_MOMENTS_H_
