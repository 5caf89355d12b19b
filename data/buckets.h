// Aspect-ratio buckets: images of many shapes are trained on at a few sizes of about equal area, so
// that little of each is cut off, and every batch has one size.
//
// The idea is NovelAI's aspect-ratio bucketing (2022); the order of batches here is our own.
#ifndef DPIPE_DATA_BUCKETS_H_
#define DPIPE_DATA_BUCKETS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "data/image.h"
#include "data/recent_epochs.h"
#include "data/sample_order.h"

namespace dpipe {

struct BucketOptions {
  int base_side = 512;  // no bucket has more pixels than base_side^2
  // Sides are multiples of this: of the VAE's factor times what the U-Net halves, 64 for Stable
  // Diffusion.
  int step = 64;
  double max_aspect = 2.0;  // of the longer side to the shorter
};

// Every width that is a multiple of `step`, with the largest height that keeps the area, and every
// height likewise, within max_aspect; each size once, by width, then height. Never empty: has the
// square. For 512 and 64: 384 x 640, 448 x 576, 512 x 512, 576 x 448, 640 x 384.
// InvalidArgument: step < 1, base_side not a multiple of it or over 16384, max_aspect < 1.
absl::StatusOr<std::vector<ImageSize>> MakeBuckets(const BucketOptions& options);

// InvalidArgument where a side is below 1 or no multiple of `multiple`; the message begins with
// `whose`.
absl::Status CheckSides(ImageSize size, int multiple, const std::string& whose);

// The bucket whose ratio of width to height is nearest to the image's, by the ratio of the ratios;
// of two equally near ones the first.
int NearestBucket(const std::vector<ImageSize>& buckets, ImageSize image);

// Every image's bucket: the nearest of those that are nearest to at least `min_size` images, or,
// where there are none, of the one that is nearest to most. (A batch of a smaller bucket would have
// images twice.) Images of size 0 x 0, which are not known, go where most are.
std::vector<int32_t> ChooseBuckets(const std::vector<ImageSize>& buckets,
                                   const std::vector<ImageSize>& images, int min_size);

// Which samples each step has, when each step takes all its samples from one bucket: a function of
// (seed, the samples' buckets, global batch) alone, and of any step at once, so that training can
// go on from any step on any number of devices.
//
// Let bucket b have n_b samples. Its sequence is endless: permutation after permutation of them,
// each drawn anew. Its k-th batch is places [k B, (k + 1) B) of that sequence; no sample is left
// out or put in twice to fill a batch. Epoch e has those batches of each bucket whose last sample
// lies in the bucket's (e+1)-th permutation: floor((e + 1) n_b / B) - floor(e n_b / B) of them, in
// an order shuffled over all buckets. So in E epochs bucket b has floor(E n_b / B) batches: each
// sample is seen E times, but for those that wait for their batch to fill.
//
// With one bucket this is SampleOrder, shuffled by batches. Thread-safe.
class BucketedOrder {
 public:
  // bucket_of[i] in [0, num_buckets) is sample i's. At least one sample; global_batch >= 1.
  BucketedOrder(uint64_t seed, const std::vector<int32_t>& bucket_of, int num_buckets,
                int global_batch);

  struct Batch {
    int bucket;
    int64_t number;  // k above
  };
  // Of step >= 0. O(num_buckets log step), and the batches of an epoch that was not lately asked
  // for.
  Batch At(int64_t step) const;

  // Sample `place` in [0, global_batch) of the batch. With 0 < `skip` < the bucket's size: the one
  // that is `skip` places further on in the same permutation, going round: a substitute.
  int32_t SampleOf(const Batch& batch, int place, int32_t skip = 0) const;

  int32_t bucket_size(int bucket) const { return static_cast<int32_t>(members_[bucket].size()); }
  // The first step with samples of the bucket; -1 where it has none.
  int64_t FirstStepOf(int bucket) const;
  // So many steps, from the first on, have every sample: whole epochs, until the bucket that takes
  // longest to fill its batches has.
  int64_t StepsToSeeAll() const;
  // Steps of epochs before `epoch`.
  int64_t StepsBefore(int64_t epoch) const;

 private:
  using Schedule = std::shared_ptr<const std::vector<Batch>>;
  Schedule ScheduleOf(int64_t epoch) const;
  std::vector<Batch> MakeSchedule(int64_t epoch) const;

  const uint64_t seed_;
  const int64_t batch_;
  const int64_t num_samples_;
  std::vector<std::vector<int32_t>> members_;         // sample indices by bucket
  std::vector<std::unique_ptr<SampleOrder>> orders_;  // by bucket; null for an empty one
  mutable RecentEpochs<std::vector<Batch>> recent_;
};

}  // namespace dpipe

#endif  // DPIPE_DATA_BUCKETS_H_
