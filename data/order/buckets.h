// Aspect-ratio buckets: images of many shapes are trained on at a few sizes of about equal area, so
// that little of each image is cropped and every batch has one size.
//
// The idea is NovelAI's aspect-ratio bucketing (2022). The order of batches is our own.
#ifndef DPIPE_DATA_ORDER_BUCKETS_H_
#define DPIPE_DATA_ORDER_BUCKETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/images/image.h"
#include "data/order/sample_order.h"

namespace dpipe {

struct BucketOptions {
  int base_side = 512;  // the maximum number of pixels of a bucket is base_side^2
  // Sides are multiples of this: the VAE's factor times the U-Net's total downsampling. 64 for
  // Stable Diffusion.
  int step = 64;
  double max_aspect = 2.0;  // maximum ratio of the longer side to the shorter
};

// Returns each width that is a multiple of `step`, with the largest height within the area, and
// each such height with its width, within max_aspect. Sorted by width, then height, without
// duplicates. Always includes the square. For 512 and 64: 384 x 640, 448 x 576, 512 x 512, 576 x
// 448, 640 x 384.
//
// Returns InvalidArgument if step < 1, max_aspect < 1, or base_side is not a multiple of `step` or
// is larger than 16384.
absl::StatusOr<std::vector<ImageSize>> MakeBuckets(const BucketOptions& options);

// Returns InvalidArgument if a side is less than 1 or not a multiple of `multiple`. The message
// begins with `owner`.
absl::Status CheckSides(ImageSize size, int multiple, const std::string& owner);

// Returns the bucket with the nearest ratio of width to height, compared by the quotient of the
// ratios. If two are equally near, returns the first.
int NearestBucket(const std::vector<ImageSize>& buckets, ImageSize image);

// Assigns each image to the nearest of the buckets that are nearest to at least `min_size` images.
// The largest bucket always counts as one of them. (In a batch of a smaller bucket, images would
// occur twice.) Images of unknown size (0 x 0) go to the largest bucket.
std::vector<int32_t> ChooseBuckets(const std::vector<ImageSize>& buckets,
                                   const std::vector<ImageSize>& images, int min_size);

// The samples of each step, if a step takes all its samples from one bucket. Depends only on (seed,
// the samples' buckets, global batch) and gives random access by step, so training can resume at
// any step on any number of devices.
//
// Bucket b has n_b samples and an endless sequence: one random permutation of them after another.
// Its k-th batch is places [k B, (k + 1) B) of that sequence, so no sample is dropped or repeated
// to fill a batch. Epoch e has the batches of each bucket whose last sample is in the bucket's
// (e+1)-th permutation: floor((e + 1) n_b / B) - floor(e n_b / B) of them, shuffled across all
// buckets. So bucket b has floor(E n_b / B) batches in E epochs: each sample is seen E times,
// except those still waiting for their batch to fill.
//
// With one bucket this is SampleOrder with shuffled batches. Thread-safe.
class BucketedOrder {
 public:
  // bucket_of[i] in [0, num_buckets) is the bucket of sample i. Requires at least one sample and
  // global_batch >= 1.
  BucketedOrder(uint64_t seed, const std::vector<int32_t>& bucket_of, int num_buckets,
                int global_batch);

  struct Batch {
    int bucket;
    int64_t number;  // k above
  };
  // Returns the batch of step >= 0. O(num_buckets log step), plus the number of batches in the
  // epoch if it is not among the recently used ones.
  Batch At(int64_t step) const;

  // Returns the sample at `place` in [0, global_batch) of the batch. If 0 < `skip` < the bucket's
  // size, returns a substitute: the sample `skip` places later in the same permutation, cyclically.
  int32_t SampleOf(const Batch& batch, int place, int32_t skip = 0) const;

  int32_t bucket_size(int bucket) const { return static_cast<int32_t>(members_[bucket].size()); }
  // Returns the first step with samples of the bucket, or -1 if it is empty.
  int64_t FirstStepOf(int bucket) const;
  // Returns the number of steps, from the first on, that contain every sample. These are whole
  // epochs, until the slowest bucket has filled batches with all its samples.
  int64_t StepsToSeeAll() const;
  // Returns the number of steps in the epochs before `epoch`.
  int64_t StepsBefore(int64_t epoch) const;

 private:
  using Schedule = std::shared_ptr<const std::vector<Batch>>;
  Schedule ScheduleOf(int64_t epoch) const;
  std::vector<Batch> MakeSchedule(int64_t epoch) const;

  const uint64_t seed_;
  const int64_t batch_;
  const int64_t num_samples_;
  std::vector<std::vector<int32_t>> members_;         // sample indices by bucket
  std::vector<std::unique_ptr<SampleOrder>> orders_;  // by bucket; null if it is empty
  mutable RecentEpochs<std::vector<Batch>> recent_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_ORDER_BUCKETS_H_
