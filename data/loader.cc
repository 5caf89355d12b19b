#include "data/loader.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "data/image_resize.h"

namespace dpipe {
namespace {

// An image longer than this is cut to it about its centre, so that a strip of pixels 1 high does
// not become a cached image thousands of times S wide.
constexpr int kMaxAspect = 4;

absl::Status CheckOptions(const DataLoaderOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("data loader: ", name, " is ", value, ", not in [", low, ", ", high, "]"));
  };
  DPIPE_RETURN_IF_ERROR(check("global_batch", options.global_batch, 1, 1 << 20));
  DPIPE_RETURN_IF_ERROR(check("image_size", options.image_size, 8, 4096));
  DPIPE_RETURN_IF_ERROR(check("cache_bytes", options.cache_bytes, 0, int64_t{1} << 50));
  DPIPE_RETURN_IF_ERROR(check("prefetch_steps", options.prefetch_steps, 0, 1000));
  DPIPE_RETURN_IF_ERROR(check("prefetch_threads", options.prefetch_threads, 0, 256));
  return check("max_corrupt", options.max_corrupt, 0, 1 << 30);
}

// What background threads decode must still be there when it is asked for.
int64_t CacheBytes(const DataLoaderOptions& options) {
  if (options.prefetch_threads == 0 || options.prefetch_steps == 0) return options.cache_bytes;
  const int64_t largest_image = int64_t{3} * kMaxAspect * options.image_size * options.image_size;
  const int64_t window = int64_t{options.prefetch_steps + 1} * options.global_batch;
  return std::max(options.cache_bytes, window * largest_image);
}

// `size` pixels on the short side, at most kMaxAspect times that on the other.
Image ShrinkToShortSide(Image image, int size) {
  const int short_side = std::min(image.width, image.height);
  const int width = std::min(image.width, kMaxAspect * short_side);
  const int height = std::min(image.height, kMaxAspect * short_side);
  if (width < image.width || height < image.height) {
    image = CropImage(image, (image.width - width) / 2, (image.height - height) / 2, width, height);
  }
  if (short_side == size) return image;
  const auto scaled = [&](int side) {
    return static_cast<int>((int64_t{side} * size + short_side / 2) / short_side);
  };
  return ResizeImage(image, scaled(width), scaled(height));
}

struct CropChoice {
  int left;
  int top;
  bool flipped;
};

CropChoice ChooseCrop(const Image& image, const DataLoaderOptions& options, int64_t step,
                      int sample) {
  const int size = options.image_size;
  CropChoice choice = {(image.width - size) / 2, (image.height - size) / 2, false};
  if (options.random_crop) {
    RandomStream random(options.seed, step, sample, RandomPurpose::kCrop);
    choice.left = random.NextBelow(image.width - size + 1);
    choice.top = random.NextBelow(image.height - size + 1);
  }
  if (options.random_flip) {
    RandomStream random(options.seed, step, sample, RandomPurpose::kFlip);
    choice.flipped = random.NextBelow(2) == 1;
  }
  return choice;
}

// The crop as [S, S, 3] floats; bytes 0 to 255 become -1 to 1.
void WritePixels(const Image& image, const CropChoice& crop, int size, float* out) {
  for (int y = 0; y < size; ++y) {
    for (int x = 0; x < size; ++x) {
      const int column = crop.flipped ? size - 1 - x : x;
      const uint8_t* pixel = image.At(crop.left + column, crop.top + y);
      for (int c = 0; c < 3; ++c) *out++ = static_cast<float>(pixel[c]) / 127.5f - 1.0f;
    }
  }
}

}  // namespace

absl::StatusOr<std::unique_ptr<DataLoader>> DataLoader::Create(FolderDataset dataset,
                                                               const DataLoaderOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckOptions(options));
  return std::unique_ptr<DataLoader>(new DataLoader(std::move(dataset), options));
}

DataLoader::DataLoader(FolderDataset dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      order_(options.seed, dataset_.size()),
      cache_(CacheBytes(options)) {
  if (options.prefetch_threads == 0 || options.prefetch_steps == 0) return;
  const int64_t window = int64_t{options.prefetch_steps} * options.global_batch;
  prefetcher_ = std::make_unique<Prefetcher>(
      options.prefetch_threads, static_cast<int>(std::min<int64_t>(window, 1 << 30)),
      // An error will come up again where the sample is asked for.
      [this](int64_t position) { FindGood(position).status().IgnoreError(); });
}

DataLoader::~DataLoader() = default;

absl::Status DataLoader::CheckRange(int64_t step, SampleRange samples) const {
  if (step >= 0 && samples.begin >= 0 && samples.begin <= samples.end &&
      samples.end <= options_.global_batch) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("data loader: step ", step, ", samples ",
                                                 samples.ToString(), " of a global batch of ",
                                                 options_.global_batch));
}

void DataLoader::PrefetchAfter(int64_t step, SampleRange samples) {
  if (prefetcher_ == nullptr) return;
  for (int64_t next = step + 1; next <= step + options_.prefetch_steps; ++next) {
    for (int i = samples.begin; i < samples.end; ++i) {
      const int64_t position = next * options_.global_batch + i;
      if (cache_.Find(order_.At(position)) == nullptr) prefetcher_->Enqueue(position);
    }
  }
}

absl::Status DataLoader::LoadPixels(int64_t step, SampleRange samples, float* pixels) {
  DPIPE_RETURN_IF_ERROR(CheckRange(step, samples));
  const int size = options_.image_size;
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const Found found, FindGood(step * options_.global_batch + i));
    WritePixels(*found.image, ChooseCrop(*found.image, options_, step, i), size, pixels);
    pixels += int64_t{3} * size * size;
  }
  PrefetchAfter(step, samples);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> DataLoader::Indices(int64_t step, SampleRange samples) {
  DPIPE_RETURN_IF_ERROR(CheckRange(step, samples));
  std::vector<int32_t> indices;
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const Found found, FindGood(step * options_.global_batch + i));
    indices.push_back(found.index);
  }
  return indices;
}

absl::StatusOr<std::vector<std::string>> DataLoader::Captions(int64_t step, SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, Indices(step, samples));
  std::vector<std::string> captions;
  for (const int32_t index : indices) captions.push_back(dataset_.caption(index));
  return captions;
}

absl::StatusOr<DataLoader::Found> DataLoader::FindGood(int64_t position) {
  const int64_t epoch_begin = position / order_.size() * order_.size();
  for (int32_t tried = 0; tried < order_.size(); ++tried) {
    const int64_t place = (position - epoch_begin + tried) % order_.size();
    const int32_t index = order_.At(epoch_begin + place);
    DPIPE_ASSIGN_OR_RETURN(std::shared_ptr<const Image> image, Load(index));
    if (image != nullptr) return Found{index, std::move(image)};
  }
  return absl::DataLossError(
      absl::StrCat("data set ", dataset_.folder(), ": none of its ", order_.size(),
                   " images can be decoded; one of them: ", Quarantine().front().reason));
}

absl::StatusOr<std::shared_ptr<const Image>> DataLoader::Load(int32_t index) {
  std::shared_ptr<const Image> image = cache_.Find(index);
  if (image != nullptr) return image;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (quarantine_.count(index) > 0) {
      // Whoever met the file first, perhaps in the background, may not have been listened to.
      DPIPE_RETURN_IF_ERROR(CheckQuarantine());
      return std::shared_ptr<const Image>();
    }
  }
  absl::StatusOr<Image> decoded = dataset_.LoadImage(index);
  if (!decoded.ok()) {
    std::lock_guard<std::mutex> lock(mutex_);
    quarantine_[index] = std::string(decoded.status().message());
    DPIPE_RETURN_IF_ERROR(CheckQuarantine());
    return std::shared_ptr<const Image>();
  }
  image =
      std::make_shared<const Image>(ShrinkToShortSide(*std::move(decoded), options_.image_size));
  cache_.Insert(index, image);
  return image;
}

absl::Status DataLoader::CheckQuarantine() const {
  if (static_cast<int64_t>(quarantine_.size()) <= options_.max_corrupt) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data set ", dataset_.folder(), ": ", quarantine_.size(),
                                          " images cannot be decoded, more than the limit of ",
                                          options_.max_corrupt,
                                          "; one of them: ", quarantine_.begin()->second));
}

void DataLoader::WaitForPrefetch() {
  if (prefetcher_ != nullptr) prefetcher_->WaitUntilIdle();
}

std::vector<QuarantinedSample> DataLoader::Quarantine() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<QuarantinedSample> samples;
  for (const auto& [index, reason] : quarantine_) {
    samples.push_back({index, dataset_.image_path(index), reason});
  }
  return samples;
}

}  // namespace dpipe
