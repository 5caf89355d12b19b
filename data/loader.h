// The training view of a data set: pixels and captions of any samples of any step, decoded ahead of
// need.
//
// If condition pictures are requested, they are cropped and flipped like their images.
//
// StepOrder decides which samples a step has, independently of who asks and how often; each rank
// asks for the samples it owns. Crop, flip and the choice among several captions are drawn from
// RandomStream(seed, k, i, kCrop, kFlip or kCaption) for sample i of step k. So they differ each
// time that a sample occurs, once per epoch.
//
// With `buckets`, steps differ in size: all images of a step are resized and cropped to its
// bucket's width W and height H. Without, W = H = S.
//
// With `patches`, steps differ in size too: from each S x S image, after cropping and flipping, the
// step uses the part that PatchDraws(seed) draws.
//
// A sample that cannot be read is skipped. The next readable sample in the order of the same epoch
// (and bucket) replaces it, cyclically. The substitute depends on the files and the order, not on
// the reader, and is seen twice in that epoch. Skipped files are counted and named; too many of
// them are an error.
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
#include "data/folders/folder_dataset.h"
#include "data/images/image.h"
#include "data/images/patches.h"
#include "data/order/image_sizes.h"
#include "data/order/step_order.h"
#include "data/prefetcher.h"
#include "data/quarantine_log.h"
#include "data/sample_crop.h"
#include "data/sample_source.h"

namespace dpipe {

struct DataLoaderOptions {
  int global_batch = 16;
  int image_size = 64;  // S: pixels per side, in [8, 4096]
  // If not empty, the sizes of steps, instead of image_size; sides in [8, 4096]. See MakeBuckets.
  std::vector<ImageSize> buckets;
  // If not empty, the patches that steps use of each image. See MakePatchSizes. Not with buckets.
  std::vector<PatchSize> patches;
  uint64_t seed = 0;
  int64_t first_step = 0;    // the start of the order: see StepOrder
  bool random_crop = false;  // otherwise the centre
  bool random_flip = false;  // horizontally, with probability 1/2
  // True if LoadConditions will be used. Every sample must then have a condition picture, and a
  // sample whose picture cannot be decoded is skipped.
  bool with_conditions = false;
  // Maximum size of the cache of decoded images, at the size from which they are cropped: 4096
  // square images of 64 pixels take 48 MiB.
  int64_t cache_bytes = 512 * kMiB;
  // After a request for a range of step k, the same range of steps k + 1, ..., k + prefetch_steps
  // is decoded in the background. The threads have the lowest priority. If steps or threads are 0,
  // there is no background work.
  int prefetch_steps = 2;
  int prefetch_threads = 1;
  // More skipped samples than this number, or than this share of the data set, are an error.
  int max_corrupt = 100;
  double max_corrupt_share = 1.0;
  // The file in which skipped samples are recorded (QuarantineLog). A later run reads it and so has
  // the same order, even if a file could not be read for a temporary reason. Empty: none.
  std::string quarantine_path;
  bool keeps_quarantine = true;  // if false, the file is only read
  // Known image sizes, to which new ones are added. Used by Create alone. May be null.
  ImageSizes* sizes = nullptr;
};

// A skipped file, and the reason.
struct QuarantinedSample {
  int32_t index;
  std::string path;
  std::string reason;  // names the unreadable file: the image, or a file that belongs to it

  // Returns the path and the reason, with the path only once.
  std::string ToString() const;
};

// Thread-safe: any rank may request any range at any time.
class DataLoader {
 public:
  // Returns InvalidArgument for impossible options, or if options.with_conditions is set and a
  // sample has no condition picture. Also returns errors of QuarantineLog. With buckets, reads the
  // headers of all images of unknown size, in several threads.
  static absl::StatusOr<std::unique_ptr<DataLoader>> Create(std::unique_ptr<SampleSource> dataset,
                                                            const DataLoaderOptions& options);
  static absl::StatusOr<std::unique_ptr<DataLoader>> Create(FolderDataset dataset,
                                                            const DataLoaderOptions& options);
  // Blocks until each background thread has finished the image that it is decoding.
  ~DataLoader();

  // Returns W and H of a step.
  ImageSize SizeOf(int64_t step) const;
  // Returns the sizes of steps, in the order of `buckets` or `patches`.
  using SizeInUse = StepOrder::SizeInUse;
  std::vector<SizeInUse> SizesInUse() const;
  // Returns the part of its image that a sample of a step uses. Without patches, the whole image.
  Patch PatchOf(int64_t step, int sample) const;
  // Returns the number of steps, from options().first_step on, that contain every readable sample.
  int64_t StepsToSeeAll() const { return order_->StepsToSeeAll(); }
  // The samples of steps, before any is skipped.
  const StepOrder& order() const { return *order_; }
  // The size of every sample, or 0 x 0 if its header cannot be read. Empty without buckets.
  const std::vector<ImageSize>& image_sizes() const { return image_sizes_; }

  // Writes [samples.size(), H, W, 3] floats in [-1, 1] (red, green, blue) to `pixels`.
  // - Returns InvalidArgument for a range outside the global batch, or a step before the order
  //   begins.
  // - Returns DataLoss, naming a file, if more files are corrupt than the limits allow, or all are.
  // - Returns Unavailable if the quarantine log cannot be written.
  absl::Status LoadPixels(int64_t step, SampleRange samples, float* pixels);

  // Writes the condition pictures of the same samples, as [samples.size(), H, W, 3] floats in [0,
  // 1]. Returns FailedPrecondition without options.with_conditions, and the errors of LoadPixels.
  absl::Status LoadConditions(int64_t step, SampleRange samples, float* pixels);

  // Decodes the samples of a step that are not decoded yet, in several threads, and skips
  // unreadable ones. Returns the errors of LoadPixels.
  absl::Status Decode(int64_t step);

  // Returns one caption for each of the same samples. Decodes images that have never been decoded,
  // because they may have to be skipped.
  absl::StatusOr<std::vector<std::string>> Captions(int64_t step, SampleRange samples);

  // Returns where each of the same samples is in its picture. Decodes like Captions.
  absl::StatusOr<std::vector<SampleCrop>> Crops(int64_t step, SampleRange samples);

  // Returns the indices of these samples in the data set, after skipping.
  absl::StatusOr<std::vector<int32_t>> Indices(int64_t step, SampleRange samples);

  // Returns the files skipped so far, by index. They may include files that background threads have
  // found and nobody has requested yet.
  std::vector<QuarantinedSample> Quarantine() const;

  // Blocks until nothing is left to prefetch. For measurements and tests.
  void WaitForPrefetch();
  // The size of the decoded images in memory.
  int64_t cached_bytes() const { return cache_.size_bytes(); }

  const SampleSource& dataset() const { return *dataset_; }
  const DataLoaderOptions& options() const { return options_; }

 private:
  struct Found {
    int32_t index;
    std::shared_ptr<const Image> image;
    std::shared_ptr<const Image> condition;  // of the same size; null without with_conditions
    ImageSize original = {};                 // if read from the source
  };

  DataLoader(std::unique_ptr<SampleSource> dataset, const DataLoaderOptions& options);
  // The parts of Create that follow the check of the options.
  absl::Status ReadQuarantineLog();
  absl::Status MakeOrder();
  void StartPrefetching();

  absl::Status CheckRange(int64_t step, SampleRange samples) const;
  void PrefetchAfter(int64_t step, SampleRange samples);
  // Returns the sample at a position (step x global batch + place), after skipping.
  absl::StatusOr<Found> FindGood(int64_t position);
  // Returns its index. Decodes only samples that have never been decoded.
  absl::StatusOr<int32_t> FindGoodIndex(int64_t position);
  // Returns sample `index`, just large enough to be cropped to its size, or no image if it is
  // corrupt.
  absl::StatusOr<Found> Load(int32_t index);
  Found FromCache(int32_t index);
  absl::StatusOr<Found> FromSource(int32_t index) const;
  // Records `index` as skipped. Returns an error if that exceeds the limits.
  absl::Status AddToQuarantine(int32_t index, const absl::Status& reason);
  // Returns an error if the limits of corrupt files are exceeded. Requires mutex_.
  absl::Status CheckQuarantine() const;

  const std::unique_ptr<const SampleSource> dataset_;
  const DataLoaderOptions options_;
  std::vector<ImageSize> image_sizes_;
  std::unique_ptr<const StepOrder> order_;
  std::unique_ptr<const PatchDraws> patches_;  // null without patches
  std::unique_ptr<const QuarantineLog> log_;   // null without quarantine_path
  ImageCache cache_;
  mutable std::mutex mutex_;
  std::map<int32_t, std::string> quarantine_;  // reason by index; guarded by mutex_
  // By index: the size of a picture that has been decoded, else 0 x 0; guarded by mutex_.
  std::vector<ImageSize> originals_;
  std::unique_ptr<Prefetcher> prefetcher_;  // last, because its threads use all of the above
};

}  // namespace dpipe

#endif  // DPIPE_DATA_LOADER_H_
