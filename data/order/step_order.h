// The samples and the image size of each training step. Depends on (seed, the first step of the
// order, the data set, global batch) alone.
//
// Let the order begin at step f, let s = OrderSeed(seed, f), and let B be the global batch. Then
// sample i of step k >= f is
// - without buckets: position (k - f) B + i of SampleOrder(s), at the one size;
// - with buckets: place i of step k - f of BucketedOrder(s), at the size of the step's bucket.
//
// A run begins its order at step 0. A run that resumes with other data begins a new order at that
// step.
#ifndef DPIPE_DATA_ORDER_STEP_ORDER_H_
#define DPIPE_DATA_ORDER_STEP_ORDER_H_

#include <cstdint>
#include <memory>
#include <vector>

#include "data/images/image.h"
#include "data/order/buckets.h"
#include "data/order/sample_order.h"

namespace dpipe {

struct StepOrderOptions {
  uint64_t seed = 0;
  int64_t first_step = 0;  // f above
  int global_batch = 1;
  ImageSize size;                  // of all steps, without buckets
  std::vector<ImageSize> buckets;  // sizes of steps, instead of `size`
};

// Thread-safe.
class StepOrder {
 public:
  // `images` has the size of every sample, or 0 x 0 if it is unknown. Empty without buckets.
  StepOrder(const StepOrderOptions& options, int32_t num_samples,
            const std::vector<ImageSize>& images);

  int64_t first_step() const { return options_.first_step; }

  // Returns the sample at `place` of a step >= first_step(). With 0 < `skip` < NumCandidates(step),
  // returns a substitute: the sample `skip` places later in the same epoch (of the same bucket),
  // cyclically.
  int32_t SampleAt(int64_t step, int place, int32_t skip = 0) const;
  int32_t NumCandidates(int64_t step) const;

  ImageSize SizeOf(int64_t step) const;
  // Returns the size of the steps that contain the sample.
  ImageSize SizeOfSample(int32_t index) const;

  // A size of steps.
  struct SizeInUse {
    ImageSize size;
    int64_t first_step = 0;  // the first step of this size
    int32_t num_samples = 0;
  };
  // Returns the sizes in use, in the order of `buckets`.
  std::vector<SizeInUse> SizesInUse() const;
  // Returns the number of steps, from the first on, that contain every sample.
  int64_t StepsToSeeAll() const;

 private:
  BucketedOrder::Batch BatchOf(int64_t step) const;

  const StepOrderOptions options_;
  const SampleOrder order_;
  std::vector<int32_t> bucket_of_;                 // by sample; empty without buckets
  std::unique_ptr<const BucketedOrder> bucketed_;  // null without buckets
};

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_STEP_ORDER_H_
