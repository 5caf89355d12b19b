#include "data/tar_dataset.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <unordered_map>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "data/caption_text.h"
#include "data/file_part.h"
#include "data/fingerprint.h"
#include "data/metadata_rows.h"
#include "data/shard_pattern.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

constexpr int64_t kMaxCaptionBytes = 1 << 20;
constexpr const char* kPartNames[] = {"image", "caption", "JSON", "condition picture"};

struct KeyAndExtension {
  std::string key;
  std::string extension;  // in lower case
};

// Whether the last part of a path begins with a dot.
bool IsHidden(const std::string& name) { return name[name.rfind('/') + 1] == '.'; }

// At the first dot of the last part of the path, but not one in front of it (".hidden").
KeyAndExtension Split(const std::string& name) {
  const size_t slash = name.rfind('/');
  const size_t base = slash == std::string::npos ? 0 : slash + 1;
  const size_t dot = name.find('.', base + 1);
  if (dot == std::string::npos) return {name, ""};
  return {name.substr(0, dot), absl::AsciiStrToLower(name.substr(dot + 1))};
}

}  // namespace

absl::StatusOr<std::unique_ptr<TarDataset>> TarDataset::Open(const std::string& pattern,
                                                             const TarDatasetOptions& options) {
  auto dataset = std::unique_ptr<TarDataset>(new TarDataset(pattern, options));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> shards, FindShards(pattern));
  for (const std::string& shard : shards) DPIPE_RETURN_IF_ERROR(dataset->AddShard(shard));
  dataset->TakeFingerprint();
  if (!dataset->samples_.empty()) return dataset;
  return absl::InvalidArgumentError(absl::StrCat("data set ", pattern, ": no JPEG, PNG or WebP in ",
                                                 shards.size(), " tar file(s)"));
}

absl::Status TarDataset::AddShard(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<TarMember> members,
                         ReadTarIndex(path, options_.tar_limits));
  const int32_t shard = static_cast<int32_t>(shards_.size());
  shards_.push_back(path);
  std::vector<Sample> found;
  std::unordered_map<std::string, size_t> places;  // in `found`, by key
  for (const TarMember& member : members) {
    if (IsHidden(member.name)) {
      ++num_hidden_;
      continue;
    }
    KeyAndExtension split = Split(member.name);
    const Kind kind = KindOf(split.extension);
    if (kind.part == kNumParts) continue;
    const auto [place, is_new] = places.emplace(split.key, found.size());
    if (is_new) {
      found.emplace_back();
      found.back().shard = shard;
      found.back().key = std::move(split.key);
    }
    DPIPE_RETURN_IF_ERROR(AddMember(member, kind, &found[place->second]));
  }
  for (Sample& sample : found) {
    if (sample.parts[kImage].size < 0) {
      ++num_keys_without_image_;
      continue;
    }
    samples_.push_back(std::move(sample));
  }
  const int64_t limit =
      std::min<int64_t>(options_.max_samples, std::numeric_limits<int32_t>::max());
  if (static_cast<int64_t>(samples_.size()) <= limit) return absl::OkStatus();
  return absl::ResourceExhaustedError(
      absl::StrCat("data set ", pattern_, ": more than ", limit, " samples, up to ", path));
}

void TarDataset::TakeFingerprint() {
  Fingerprint fingerprint;
  for (const Sample& sample : samples_) {
    const std::string& shard = shards_[sample.shard];
    fingerprint.Add(absl::string_view(shard).substr(shard.rfind('/') + 1)).Add(sample.key);
    for (const Place& place : sample.parts) fingerprint.Add(place.extension).AddNumber(place.size);
  }
  fingerprint_ = fingerprint.ToString();
}

std::vector<std::string> TarDataset::notes() const {
  std::vector<std::string> notes;
  if (num_keys_without_image_ > 0 || num_hidden_ > 0) {
    notes.push_back(absl::StrCat("ignored: ", num_keys_without_image_,
                                 " names with members but no JPEG, PNG or WebP, ", num_hidden_,
                                 " members whose names begin with a dot"));
  }
  const int64_t num_without_caption =
      std::count_if(samples_.begin(), samples_.end(), [](const Sample& sample) {
        return sample.parts[kCaption].size < 0 && sample.parts[kJson].size < 0;
      });
  if (num_without_caption > 0) {
    notes.push_back(
        absl::StrCat(num_without_caption, " of the ", samples_.size(),
                     " images have no .txt, .caption or .json ",
                     options_.default_caption.has_value()
                         ? absl::StrCat("and get the caption \"", *options_.default_caption, "\"")
                         : absl::StrCat("and will be skipped: ", kWithoutCaptions)));
  }
  return notes;
}

TarDataset::Kind TarDataset::KindOf(const std::string& extension) {
  static constexpr Kind kKinds[] = {
      {"jpg", kImage},  {"jpeg", kImage},         {"png", kImage},
      {"webp", kImage}, {"txt", kCaption},        {"caption", kCaption},
      {"json", kJson},  {"cond.png", kCondition}, {"conditioning.png", kCondition}};
  for (const Kind& kind : kKinds) {
    if (extension == kind.extension) return kind;
  }
  return {"", kNumParts};
}

absl::Status TarDataset::AddMember(const TarMember& member, const Kind& kind, Sample* sample) {
  Place& place = sample->parts[kind.part];
  if (place.size >= 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        shards_.back(), ": ", member.name, ": ", sample->key, " has its ", kPartNames[kind.part],
        " twice, as .", place.extension, " and .", kind.extension));
  }
  place = {member.offset, member.size, kind.extension};
  return absl::OkStatus();
}

std::string TarDataset::Describe(const Sample& sample, Part part) const {
  return absl::StrCat(shards_[sample.shard], ": ", sample.key, ".", sample.parts[part].extension);
}

std::string TarDataset::image_path(int32_t index) const {
  return Describe(samples_[index], kImage);
}

bool TarDataset::has_condition(int32_t index) const {
  return samples_[index].parts[kCondition].size >= 0;
}

absl::StatusOr<std::string> TarDataset::Read(const Sample& sample, Part part,
                                             int64_t max_bytes) const {
  const Place& place = sample.parts[part];
  if (place.size > max_bytes) {
    return absl::ResourceExhaustedError(absl::StrCat(Describe(sample, part), ": ", place.size,
                                                     " bytes, more than the limit of ", max_bytes));
  }
  return ReadFilePart(shards_[sample.shard], place.offset, place.size);
}

absl::StatusOr<std::string> TarDataset::LoadCaption(int32_t index) const {
  const Sample& sample = samples_[index];
  if (sample.parts[kCaption].size >= 0) {
    DPIPE_ASSIGN_OR_RETURN(const std::string text, Read(sample, kCaption, kMaxCaptionBytes));
    return CaptionText(text);
  }
  if (sample.parts[kJson].size >= 0) return CaptionInJson(sample);
  if (options_.default_caption.has_value()) return *options_.default_caption;
  return absl::NotFoundError(absl::StrCat(image_path(index), ": no .txt, .caption or .json"));
}

absl::StatusOr<std::string> TarDataset::CaptionInJson(const Sample& sample) const {
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Read(sample, kJson, kMaxCaptionBytes));
  const absl::Status utf8 = CheckUtf8(text);
  if (!utf8.ok()) {
    return absl::Status(utf8.code(), absl::StrCat(Describe(sample, kJson), ": ", utf8.message()));
  }
  const auto json = nlohmann::ordered_json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(sample, kJson), ": not a JSON object"));
  }
  std::string column = options_.caption_column;
  if (column.empty()) {
    column = !json.contains("caption") && json.contains("text") ? "text" : "caption";
  }
  const bool has_value = json.contains(column) && !json[column].is_null();
  if (has_value && json[column].is_string()) return CaptionText(json[column].get<std::string>());
  if (!has_value && options_.default_caption.has_value()) return *options_.default_caption;
  return absl::InvalidArgumentError(absl::StrCat(
      Describe(sample, kJson), ": no caption \"", column, "\", which must be a string; it has ",
      ColumnsText(json), ": name the caption's with --data.caption_column"));
}

absl::StatusOr<Image> TarDataset::LoadImage(int32_t index) const {
  const Sample& sample = samples_[index];
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes,
                         Read(sample, kImage, options_.decode_limits.max_file_bytes));
  return DecodeImage(bytes, image_path(index), options_.decode_limits);
}

absl::StatusOr<ImageSize> TarDataset::LoadImageSize(int32_t index) const {
  const Sample& sample = samples_[index];
  const Place& place = sample.parts[kImage];
  return ReadImageSize(shards_[sample.shard], place.offset, place.size, image_path(index),
                       options_.decode_limits);
}

absl::StatusOr<std::string> TarDataset::LoadIdentity(int32_t index) const {
  const Sample& sample = samples_[index];
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity shard, IdentifyFile(shards_[sample.shard]));
  return absl::StrCat(image_path(index), " ", shard.size, " ", shard.changed_ns, " ",
                      sample.parts[kImage].offset);
}

absl::StatusOr<Image> TarDataset::LoadCondition(int32_t index) const {
  const Sample& sample = samples_[index];
  if (!has_condition(index)) {
    return absl::NotFoundError(absl::StrCat(image_path(index), ": no condition picture"));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes,
                         Read(sample, kCondition, options_.decode_limits.max_file_bytes));
  return DecodeImage(bytes, Describe(sample, kCondition), options_.decode_limits);
}

}  // namespace dpipe
