// Training's view of a data set: pixels and captions of any samples of any step, decoded ahead of
// need.
//
// Condition pictures, where they are asked for, are cropped and flipped as their images are.
//
// Which samples a step has is StepOrder's to say, whoever asks and however often: ranks each ask
// for the samples they own. Crop, flip and, of several captions, the one to train on are drawn from
// RandomStream(seed, k, i, kCrop, kFlip or kCaption): anew each time that a sample comes, which is
// once per epoch.
//
// With `buckets`, steps differ in size: all images of a step are resized and cropped to its
// bucket's width W and height H. Without, W = H = S.
//
// With `patches`, steps differ in size too: of each S x S image, cropped and flipped, the step has
// the part that PatchDraws(seed) draws.
//
// A sample that cannot be read is skipped: the next sample of the same epoch's order (and bucket)
// that can be read takes its place (after the last comes the first). That is a function of the
// files and the order, not of who reads; the substitute is seen twice in that epoch. Skipped files
// are counted and named; too many of them are an error.
#ifndef DPIPE_DATA_LOADER_H_
#define DPIPE_DATA_LOADER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/base/bytes.h"
#include "core/base/range.h"
#include "core/base/status.h"
#include "data/folder_dataset.h"
#include "data/image_cache.h"
#include "data/image_sizes.h"
#include "data/patches.h"
#include "data/prefetcher.h"
#include "data/quarantine_log.h"
#include "data/sample_source.h"
#include "data/step_order.h"

namespace dpipe {

struct DataLoaderOptions {
  int global_batch = 16;
  int image_size = 64;  // S: pixels a side, in [8, 4096]
  // Not empty: the sizes of steps, instead of image_size; sides in [8, 4096]. See MakeBuckets.
  std::vector<ImageSize> buckets;
  // Not empty: what steps have of each image. See MakePatchSizes. Not with buckets.
  std::vector<PatchSize> patches;
  uint64_t seed = 0;
  int64_t first_step = 0;    // at which the order begins: see StepOrder
  bool random_crop = false;  // else the centre
  bool random_flip = false;  // left and right, with probability 1/2
  // Whether LoadConditions is going to be used: then every sample must have a condition picture,
  // and one whose picture cannot be decoded is skipped.
  bool with_conditions = false;
  // Decoded images kept, at the size they are cropped from: 4096 square ones of 64 pixels take 48
  // MiB.
  int64_t cache_bytes = 512 * kMiB;
  // When a range of step k is asked for, the same range of steps k + 1, ..., k + prefetch_steps is
  // decoded in the background, by threads of the lowest priority. 0 threads or steps: no background
  // work.
  int prefetch_steps = 2;
  int prefetch_threads = 1;
  // More skipped samples than this number, or than this share of the data set, are an error.
  int max_corrupt = 100;
  double max_corrupt_share = 1.0;
  // Where skipped samples are written down (QuarantineLog), and read again by a later run, which
  // then has the same order even if a file could not be read for a passing reason. Empty: nowhere.
  std::string quarantine_path;
  bool keeps_quarantine = true;  // false: the file is read, and nothing is written into it
  // What is known of images' sizes, and gets what is read; used by Create alone. Null: nothing is.
  ImageSizes* sizes = nullptr;
};

// A file that was skipped, and why.
struct QuarantinedSample {
  int32_t index;
  std::string path;
  std::string reason;  // names the file that could not be read: the image, or what belongs to it

  // Both, with the path once.
  std::string ToString() const;
};

// Thread-safe: any rank may ask for any range at any time.
class DataLoader {
 public:
  // InvalidArgument for impossible options, or if options.with_conditions and a sample has none;
  // errors of QuarantineLog. With buckets, reads the headers of all images whose sizes are not
  // known, in several threads.
  static absl::StatusOr<std::unique_ptr<DataLoader>> Create(std::unique_ptr<SampleSource> dataset,
                                                            const DataLoaderOptions& options);
  static absl::StatusOr<std::unique_ptr<DataLoader>> Create(FolderDataset dataset,
                                                            const DataLoaderOptions& options);
  // Waits for the decoding of at most one image a background thread.
  ~DataLoader();

  // W and H of a step.
  ImageSize SizeOf(int64_t step) const;
  // The sizes that steps have, in the order of `buckets` or `patches`.
  using SizeInUse = StepOrder::SizeInUse;
  std::vector<SizeInUse> SizesInUse() const;
  // Which part of its image a sample of a step is: without patches, all of it.
  Patch PatchOf(int64_t step, int sample) const;
  // How many steps, from options().first_step on, have every sample that can be read.
  int64_t StepsToSeeAll() const { return order_->StepsToSeeAll(); }
  // Which samples steps have, before any is skipped.
  const StepOrder& order() const { return *order_; }
  // Of every sample, 0 x 0 where its header cannot be read; empty without buckets.
  const std::vector<ImageSize>& image_sizes() const { return image_sizes_; }

  // Writes [samples.size(), H, W, 3] floats in [-1, 1] (red, green, blue) to `pixels`.
  // InvalidArgument: a range outside the global batch, or a step before the order begins. DataLoss:
  // more files are corrupt than the limits allow, or all are; it names one of them. Unavailable:
  // the quarantine log cannot be written.
  absl::Status LoadPixels(int64_t step, SampleRange samples, float* pixels);

  // Writes the condition pictures of the same samples, as [samples.size(), H, W, 3] floats in
  // [0, 1]. FailedPrecondition without options.with_conditions; else errors as above.
  absl::Status LoadConditions(int64_t step, SampleRange samples, float* pixels);

  // Decodes the samples of a step that were not decoded yet, in several threads, and skips those
  // that cannot be. Errors are LoadPixels's.
  absl::Status Decode(int64_t step);

  // The captions of the same samples, one each. Decodes images that were never decoded before, to
  // know which are skipped.
  absl::StatusOr<std::vector<std::string>> Captions(int64_t step, SampleRange samples);

  // Which samples of the data set these are, after skipping.
  absl::StatusOr<std::vector<int32_t>> Indices(int64_t step, SampleRange samples);

  // The files skipped so far, by index. Background threads may have met files that no one asked for
  // yet.
  std::vector<QuarantinedSample> Quarantine() const;

  // Returns when nothing is left to decode ahead: for measurements, and tests.
  void WaitForPrefetch();
  // What the decoded images in memory take.
  int64_t cached_bytes() const { return cache_.size_bytes(); }

  const SampleSource& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }

 private:
  struct Found {
    int32_t index;
    std::shared_ptr<const Image> image;
    std::shared_ptr<const Image> condition;  // of the same size; null without with_conditions
  };

  DataLoader(std::unique_ptr<SampleSource> dataset, const DataLoaderOptions& options);
  // What Create does once options are known to be sound.
  absl::Status ReadQuarantineLog();
  absl::Status MakeOrder();
  void StartPrefetching();

  absl::Status CheckRange(int64_t step, SampleRange samples) const;
  void PrefetchAfter(int64_t step, SampleRange samples);
  // The image at a position (step x global batch + sample), after skipping.
  absl::StatusOr<Found> FindGood(int64_t position);
  // Its index; decodes only what never was.
  absl::StatusOr<int32_t> FindGoodIndex(int64_t position);
  // Sample `index`, just large enough to be cropped to its size; no image if it is corrupt.
  absl::StatusOr<Found> Load(int32_t index);
  Found FromCache(int32_t index);
  absl::StatusOr<Found> FromSource(int32_t index) const;
  // Writes `index` down. The limits' error, if it is one too many.
  absl::Status PutInQuarantine(int32_t index, const absl::Status& reason);
  // Whether the limits of corrupt files are kept; mutex_ is held.
  absl::Status CheckQuarantine() const;

  const std::unique_ptr<const SampleSource> dataset_;
  const DataLoaderOptions options_;
  std::vector<ImageSize> image_sizes_;
  std::unique_ptr<const StepOrder> order_;
  std::unique_ptr<const PatchDraws> patches_;  // null without patches
  std::unique_ptr<const QuarantineLog> log_;   // null without quarantine_path
  ImageCache cache_;
  mutable std::mutex mutex_;
  std::map<int32_t, std::string> quarantine_;  // reason by index; under mutex_
  std::vector<bool> readable_;                 // by index: was decoded once; under mutex_
  std::unique_ptr<Prefetcher> prefetcher_;     // last: its threads use all of the above
};

}  // namespace dpipe

#endif  // DPIPE_DATA_LOADER_H_
