#include "data/loader.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/philox.h"
#include "data/images/image_resize.h"

namespace dpipe {
namespace {

absl::Status CheckOptions(const DataLoaderOptions& options) {
  const auto check = [](const char* name, int64_t value, int64_t low, int64_t high) {
    if (value >= low && value <= high) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("data loader: ", name, " is ", value, ", not in [", low, ", ", high, "]"));
  };
  DPIPE_RETURN_IF_ERROR(check("global_batch", options.global_batch, 1, 1 << 20));
  DPIPE_RETURN_IF_ERROR(check("image_size", options.image_size, 8, 4096));
  for (const ImageSize bucket : options.buckets) {
    DPIPE_RETURN_IF_ERROR(check("a bucket's width", bucket.width, 8, 4096));
    DPIPE_RETURN_IF_ERROR(check("a bucket's height", bucket.height, 8, 4096));
  }
  if (!options.buckets.empty() && !options.patches.empty()) {
    return absl::InvalidArgumentError(absl::StrCat("data loader: ", options.buckets.size(),
                                                   " buckets and ", options.patches.size(),
                                                   " sizes of patches; use only one of the two"));
  }
  for (const PatchSize& patch : options.patches) {
    DPIPE_RETURN_IF_ERROR(check("a patch's side", patch.side, 8, options.image_size));
  }
  if (!(options.max_corrupt_share >= 0 && options.max_corrupt_share <= 1)) {
    return absl::InvalidArgumentError(absl::StrCat("data loader: max_corrupt_share is ",
                                                   options.max_corrupt_share, ", not in [0, 1]"));
  }
  DPIPE_RETURN_IF_ERROR(check("first_step", options.first_step, 0, int64_t{1} << 50));
  DPIPE_RETURN_IF_ERROR(check("cache_bytes", options.cache_bytes, 0, int64_t{1} << 50));
  DPIPE_RETURN_IF_ERROR(check("prefetch_steps", options.prefetch_steps, 0, 1000));
  DPIPE_RETURN_IF_ERROR(check("prefetch_threads", options.prefetch_threads, 0, 256));
  return check("max_corrupt", options.max_corrupt, 0, 1 << 30);
}

// Returns the cache size, at least enough to keep prefetched images until they are requested.
int64_t CacheBytes(const DataLoaderOptions& options) {
  if (options.prefetch_threads == 0 || options.prefetch_steps == 0) return options.cache_bytes;
  const int64_t images_per_sample = options.with_conditions ? 2 : 1;
  int64_t pixels = int64_t{options.image_size} * options.image_size;
  if (!options.buckets.empty()) pixels = 0;
  for (const ImageSize bucket : options.buckets) {
    pixels = std::max(pixels, int64_t{bucket.width} * bucket.height);
  }
  const int64_t largest_sample = images_per_sample * 3 * kMaxAspect * pixels;
  const int64_t window = int64_t{options.prefetch_steps + 1} * options.global_batch;
  return std::max(options.cache_bytes, window * largest_sample);
}

// A condition picture may be smaller or larger than its image, but must show the same frame: their
// shapes may differ by 2 %, or by one pixel if that is more.
absl::Status CheckSameAspect(const std::string& path, const Image& image, const Image& condition) {
  const double height = static_cast<double>(condition.width) * image.height / image.width;
  if (std::abs(height - condition.height) <= std::max(1.0, 0.02 * condition.height)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      path, ": the image is ", image.width, " x ", image.height, ", its condition picture ",
      condition.width, " x ", condition.height, ", which has a different aspect ratio"));
}

// Keys of the cache.
int64_t ImageKey(int32_t index) { return int64_t{2} * index; }
int64_t ConditionKey(int32_t index) { return int64_t{2} * index + 1; }

ImageSize SizeOfImage(const Image& image) { return {image.width, image.height}; }

CropDraws DrawsOf(const DataLoaderOptions& options) {
  return {options.seed, options.random_crop, options.random_flip};
}

size_t ChooseCaption(size_t num_captions, uint64_t seed, int64_t step, int sample) {
  if (num_captions == 1) return 0;
  RandomStream random(seed, step, sample, RandomPurpose::kCaption);
  return random.NextBelow(static_cast<uint32_t>(num_captions));
}

}  // namespace

std::string QuarantinedSample::ToString() const {
  return absl::StrContains(reason, path) ? reason : absl::StrCat(path, ": ", reason);
}

absl::StatusOr<std::unique_ptr<DataLoader>> DataLoader::Create(
    std::unique_ptr<SampleSource> dataset, const DataLoaderOptions& options) {
  DPIPE_RETURN_IF_ERROR(CheckOptions(options));
  for (int32_t i = 0; options.with_conditions && i < dataset->size(); ++i) {
    if (dataset->has_condition(i)) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", dataset->name(), ": ", dataset->image_path(i),
        " has no condition picture (metadata.jsonl: column \"conditioning_image\"; or a file "
        "NAME.cond.png)"));
  }
  auto loader = std::unique_ptr<DataLoader>(new DataLoader(std::move(dataset), options));
  DPIPE_RETURN_IF_ERROR(loader->ReadQuarantineLog());
  DPIPE_RETURN_IF_ERROR(loader->MakeOrder());
  loader->StartPrefetching();
  return loader;
}

absl::StatusOr<std::unique_ptr<DataLoader>> DataLoader::Create(FolderDataset dataset,
                                                               const DataLoaderOptions& options) {
  return Create(std::make_unique<FolderDataset>(std::move(dataset)), options);
}

DataLoader::DataLoader(std::unique_ptr<SampleSource> dataset, const DataLoaderOptions& options)
    : dataset_(std::move(dataset)),
      options_(options),
      cache_(CacheBytes(options)),
      originals_(dataset_->size()) {
  if (options.patches.empty()) return;
  patches_ = std::make_unique<const PatchDraws>(options.seed, options.image_size, options.patches);
}

absl::Status DataLoader::ReadQuarantineLog() {
  if (options_.quarantine_path.empty()) return absl::OkStatus();
  const auto use =
      options_.keeps_quarantine ? QuarantineLog::Use::kReadAndAppend : QuarantineLog::Use::kRead;
  DPIPE_ASSIGN_OR_RETURN(log_, QuarantineLog::Open(options_.quarantine_path, use));
  std::map<std::string, std::string> reasons;
  for (const QuarantineEntry& entry : log_->known()) reasons[entry.path] = entry.reason;
  for (int32_t i = 0; !reasons.empty() && i < dataset_->size(); ++i) {
    const auto found = reasons.find(dataset_->image_path(i));
    if (found != reasons.end()) quarantine_[i] = found->second;
  }
  return CheckQuarantine();
}

absl::Status DataLoader::MakeOrder() {
  StepOrderOptions order;
  order.seed = options_.seed;
  order.first_step = options_.first_step;
  order.global_batch = options_.global_batch;
  order.size = {options_.image_size, options_.image_size};
  order.buckets = options_.buckets;
  if (!options_.buckets.empty()) {
    ImageSizes nothing_known;
    ImageSizes& sizes = options_.sizes == nullptr ? nothing_known : *options_.sizes;
    // Also reads the sizes of known bad samples, so that the order is the same as in the run that
    // found them.
    const std::vector<absl::StatusOr<ImageSize>> all = sizes.Read(*dataset_);
    for (int32_t i = 0; i < dataset_->size(); ++i) {
      const auto& found = all[i];
      if (absl::IsUnavailable(found.status())) return found.status();
      if (!found.ok()) DPIPE_RETURN_IF_ERROR(AddToQuarantine(i, found.status()));
      image_sizes_.push_back(found.ok() ? *found : ImageSize());
    }
  }
  order_ = std::make_unique<const StepOrder>(order, dataset_->size(), image_sizes_);
  return absl::OkStatus();
}

void DataLoader::StartPrefetching() {
  if (options_.prefetch_threads == 0 || options_.prefetch_steps == 0) return;
  const int64_t window = int64_t{options_.prefetch_steps} * options_.global_batch;
  prefetcher_ = std::make_unique<Prefetcher>(
      options_.prefetch_threads, static_cast<int>(std::min<int64_t>(window, 1 << 30)),
      // Any error recurs when the sample is requested.
      [this](int64_t position) { FindGood(position).status().IgnoreError(); });
}

DataLoader::~DataLoader() = default;

absl::Status DataLoader::CheckRange(int64_t step, SampleRange samples) const {
  if (step >= 0 && step < options_.first_step) {
    return absl::InvalidArgumentError(absl::StrCat("data loader: step ", step,
                                                   " is before the first step of the order, ",
                                                   options_.first_step));
  }
  if (step >= 0 && samples.begin >= 0 && samples.begin <= samples.end &&
      samples.end <= options_.global_batch) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "data loader: samples ", samples.ToString(), " of step ", step,
      " are not within the global batch of ", options_.global_batch, " samples (--global_batch)"));
}

ImageSize DataLoader::SizeOf(int64_t step) const {
  if (patches_ == nullptr) return order_->SizeOf(step);
  const int side = patches_->SideOf(step);
  return {side, side};
}

Patch DataLoader::PatchOf(int64_t step, int sample) const {
  if (patches_ != nullptr) return patches_->Of(step, sample);
  const ImageSize whole = order_->SizeOf(step);
  return {0, 0, whole, whole};
}

std::vector<DataLoader::SizeInUse> DataLoader::SizesInUse() const {
  if (patches_ == nullptr) return order_->SizesInUse();
  std::vector<SizeInUse> sizes;
  for (size_t i = 0; i < options_.patches.size(); ++i) {
    const int side = options_.patches[i].side;
    sizes.push_back({{side, side},
                     patches_->FirstStepOf(static_cast<int>(i), options_.first_step),
                     dataset_->size()});
  }
  return sizes;
}

void DataLoader::PrefetchAfter(int64_t step, SampleRange samples) {
  if (prefetcher_ == nullptr) return;
  for (int64_t next = step + 1; next <= step + options_.prefetch_steps; ++next) {
    for (int i = samples.begin; i < samples.end; ++i) {
      const int64_t position = next * options_.global_batch + i;
      if (cache_.Find(ImageKey(order_->SampleAt(next, i))) == nullptr) {
        prefetcher_->Enqueue(position);
      }
    }
  }
}

absl::Status DataLoader::LoadPixels(int64_t step, SampleRange samples, float* pixels) {
  DPIPE_RETURN_IF_ERROR(CheckRange(step, samples));
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const Found found, FindGood(step * options_.global_batch + i));
    const Patch patch = PatchOf(step, i);
    const CropChoice crop =
        ChooseCrop(SizeOfImage(*found.image), patch.whole, DrawsOf(options_), step, i);
    WritePixels(*found.image, crop, patch, 127.5f, -1.0f, pixels);
    pixels += int64_t{3} * patch.size.width * patch.size.height;
  }
  PrefetchAfter(step, samples);
  return absl::OkStatus();
}

absl::Status DataLoader::LoadConditions(int64_t step, SampleRange samples, float* pixels) {
  DPIPE_RETURN_IF_ERROR(CheckRange(step, samples));
  if (!options_.with_conditions) {
    return absl::FailedPreconditionError(absl::StrCat(
        "data set ", dataset_->name(), ": the loader was created without with_conditions"));
  }
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const Found found, FindGood(step * options_.global_batch + i));
    const Patch patch = PatchOf(step, i);
    const CropChoice crop =
        ChooseCrop(SizeOfImage(*found.image), patch.whole, DrawsOf(options_), step, i);
    WritePixels(*found.condition, crop, patch, 255.0f, 0.0f, pixels);
    pixels += int64_t{3} * patch.size.width * patch.size.height;
  }
  PrefetchAfter(step, samples);
  return absl::OkStatus();
}

absl::Status DataLoader::Decode(int64_t step) {
  const int batch = options_.global_batch;
  DPIPE_RETURN_IF_ERROR(CheckRange(step, {0, batch}));
  std::vector<absl::Status> found(batch);
  ReadInParallel(batch, [&](int64_t i) { found[i] = FindGood(step * batch + i).status(); });
  for (const absl::Status& status : found) DPIPE_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

absl::StatusOr<std::vector<int32_t>> DataLoader::Indices(int64_t step, SampleRange samples) {
  DPIPE_RETURN_IF_ERROR(CheckRange(step, samples));
  std::vector<int32_t> indices;
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(const int32_t index, FindGoodIndex(step * options_.global_batch + i));
    indices.push_back(index);
  }
  return indices;
}

absl::StatusOr<std::vector<std::string>> DataLoader::Captions(int64_t step, SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, Indices(step, samples));
  std::vector<std::string> captions;
  for (int i = samples.begin; i < samples.end; ++i) {
    DPIPE_ASSIGN_OR_RETURN(std::vector<std::string> choices,
                           dataset_->LoadCaptions(indices[i - samples.begin]));
    captions.push_back(std::move(choices[ChooseCaption(choices.size(), options_.seed, step, i)]));
  }
  return captions;
}

absl::StatusOr<std::vector<SampleCrop>> DataLoader::Crops(int64_t step, SampleRange samples) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int32_t> indices, Indices(step, samples));
  std::vector<SampleCrop> crops;
  for (int i = samples.begin; i < samples.end; ++i) {
    const int32_t index = indices[i - samples.begin];
    ImageSize original;
    {
      std::lock_guard<std::mutex> lock(mutex_);
      original = originals_[index];
    }
    const Cover cover = CoverOf(original, order_->SizeOfSample(index));
    const Patch patch = PatchOf(step, i);
    const CropChoice choice = ChooseCrop(cover.resized, patch.whole, DrawsOf(options_), step, i);
    crops.push_back(CropInPicture(original, cover, patch, choice));
  }
  return crops;
}

absl::StatusOr<DataLoader::Found> DataLoader::FindGood(int64_t position) {
  const int64_t step = position / options_.global_batch;
  const int place = static_cast<int>(position % options_.global_batch);
  const int32_t num_candidates = order_->NumCandidates(step);
  for (int32_t skip = 0; skip < num_candidates; ++skip) {
    DPIPE_ASSIGN_OR_RETURN(Found found, Load(order_->SampleAt(step, place, skip)));
    if (found.image != nullptr) return found;
  }
  return absl::DataLossError(
      absl::StrCat("data set ", dataset_->name(), ": none of its ", num_candidates,
                   !options_.buckets.empty() ? " images of one bucket" : " images",
                   " can be decoded; one of them: ", Quarantine().front().reason));
}

absl::StatusOr<int32_t> DataLoader::FindGoodIndex(int64_t position) {
  const int64_t step = position / options_.global_batch;
  const int place = static_cast<int>(position % options_.global_batch);
  const int32_t first = order_->SampleAt(step, place);
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (originals_[first].width > 0 && quarantine_.count(first) == 0) return first;
  }
  DPIPE_ASSIGN_OR_RETURN(const Found found, FindGood(position));
  return found.index;
}

absl::StatusOr<DataLoader::Found> DataLoader::Load(int32_t index) {
  Found found = FromCache(index);
  if (found.image != nullptr) return found;
  {
    std::lock_guard<std::mutex> lock(mutex_);
    if (quarantine_.count(index) > 0) {
      // The limits may have been exceeded by a background thread, whose error was ignored.
      DPIPE_RETURN_IF_ERROR(CheckQuarantine());
      return found;
    }
  }
  absl::StatusOr<Found> read = FromSource(index);
  if (!read.ok()) {
    DPIPE_RETURN_IF_ERROR(AddToQuarantine(index, read.status()));
    return found;
  }
  {
    std::lock_guard<std::mutex> lock(mutex_);
    originals_[index] = read->original;
  }
  cache_.Insert(ImageKey(index), read->image);
  if (read->condition != nullptr) cache_.Insert(ConditionKey(index), read->condition);
  return read;
}

DataLoader::Found DataLoader::FromCache(int32_t index) {
  Found found{index, cache_.Find(ImageKey(index)), nullptr, {}};
  if (found.image == nullptr || !options_.with_conditions) return found;
  found.condition = cache_.Find(ConditionKey(index));
  if (found.condition == nullptr) found.image = nullptr;  // both or neither
  return found;
}

absl::StatusOr<DataLoader::Found> DataLoader::FromSource(int32_t index) const {
  DPIPE_RETURN_IF_ERROR(dataset_->LoadCaptions(index).status());
  DPIPE_ASSIGN_OR_RETURN(Image image, dataset_->LoadImage(index));
  Found found{index, nullptr, nullptr, {image.width, image.height}};
  if (options_.with_conditions) {
    DPIPE_ASSIGN_OR_RETURN(Image condition, dataset_->LoadCondition(index));
    DPIPE_RETURN_IF_ERROR(CheckSameAspect(dataset_->image_path(index), image, condition));
    if (condition.width != image.width || condition.height != image.height) {
      condition = ResizeImage(condition, image.width, image.height);
    }
    found.condition = std::make_shared<const Image>(
        ShrinkToCover(std::move(condition), order_->SizeOfSample(index)));
  }
  found.image =
      std::make_shared<const Image>(ShrinkToCover(std::move(image), order_->SizeOfSample(index)));
  return found;
}

absl::Status DataLoader::AddToQuarantine(int32_t index, const absl::Status& reason) {
  std::lock_guard<std::mutex> lock(mutex_);
  const bool is_new = quarantine_.emplace(index, std::string(reason.message())).second;
  if (is_new && log_ != nullptr) {
    DPIPE_RETURN_IF_ERROR(log_->Append({dataset_->image_path(index), quarantine_[index]}));
  }
  return CheckQuarantine();
}

absl::Status DataLoader::CheckQuarantine() const {
  const int64_t of_share =
      static_cast<int64_t>(options_.max_corrupt_share * static_cast<double>(dataset_->size()));
  const int64_t limit = std::min<int64_t>(options_.max_corrupt, of_share);
  if (static_cast<int64_t>(quarantine_.size()) <= limit) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat("data set ", dataset_->name(), ": ", quarantine_.size(),
                                          " images of ", dataset_->size(),
                                          " cannot be decoded, more than the limit of ", limit,
                                          "; one of them: ", quarantine_.begin()->second));
}

void DataLoader::WaitForPrefetch() {
  if (prefetcher_ != nullptr) prefetcher_->WaitUntilIdle();
}

std::vector<QuarantinedSample> DataLoader::Quarantine() const {
  std::lock_guard<std::mutex> lock(mutex_);
  std::vector<QuarantinedSample> samples;
  for (const auto& [index, reason] : quarantine_) {
    samples.push_back({index, dataset_->image_path(index), reason});
  }
  return samples;
}

}  // namespace dpipe
