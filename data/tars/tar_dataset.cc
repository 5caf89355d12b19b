#include "data/tars/tar_dataset.h"

#include <algorithm>
#include <limits>
#include <unordered_map>
#include <unordered_set>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "core/base/count.h"
#include "core/base/text/encoding.h"
#include "core/base/text/json.h"
#include "data/captions/caption_text.h"
#include "data/fingerprint.h"
#include "data/tars/file_part.h"
#include "data/tars/shard_pattern.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

constexpr int64_t kMaxCaptionBytes = 1 << 20;

// Returns the position at which the last component of a path begins.
size_t BaseOf(const std::string& name) { return name.rfind('/') + 1; }

// True if the last component of a path begins with a dot.
bool IsHidden(const std::string& name) { return name[BaseOf(name)] == '.'; }

}  // namespace

TarDataset::TarDataset(std::string pattern, const TarDatasetOptions& options)
    : pattern_(std::move(pattern)),
      options_(options),
      caption_column_(options.caption_column, "caption", "text") {}

absl::StatusOr<std::unique_ptr<TarDataset>> TarDataset::Open(const std::string& pattern,
                                                             const TarDatasetOptions& options) {
  auto dataset = std::unique_ptr<TarDataset>(new TarDataset(pattern, options));
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> shards, FindShards(pattern));
  for (const std::string& shard : shards) DPIPE_RETURN_IF_ERROR(dataset->AddShard(shard));
  dataset->ComputeFingerprint();
  dataset->CollectNotes();
  const std::vector<Sample>& samples = dataset->samples_;
  const bool has_image = std::any_of(samples.begin(), samples.end(), [&](const Sample& sample) {
    return dataset->CheckWhole(sample, kImage).ok();
  });
  if (has_image) return dataset;
  return absl::InvalidArgumentError(
      absl::StrCat("data set ", pattern, ": no JPEG, PNG or WebP in ",
                   Count(shards.size(), "tar file"), samples.empty() ? "" : "; ",
                   samples.empty() ? "" : dataset->CheckWhole(samples[0], kImage).message()));
}

absl::Status TarDataset::AddShard(const std::string& path) {
  absl::StatusOr<TarIndex> index = ReadTarIndex(path, options_.tar_limits);
  if (absl::IsInvalidArgument(index.status())) {
    TarIndex unreadable;
    unreadable.damage = std::string(index.status().message());
    index = std::move(unreadable);
  }
  DPIPE_RETURN_IF_ERROR(index.status());
  const size_t first = samples_.size();
  const int32_t shard = static_cast<int32_t>(shards_.size());
  shards_.push_back({path, index->file_bytes, index->damage, index->rest});
  num_links_ += index->num_links;
  const std::vector<TarMember>& members = index->members;
  for (size_t begin = 0, end = 0; begin < members.size(); begin = end) {
    while (end < members.size() && members[end].archive == members[begin].archive) ++end;
    AddArchive(members, begin, end);
  }
  const bool has_cut_sample =
      std::any_of(samples_.begin() + first, samples_.end(), [this](const Sample& sample) {
        return !CheckWhole(sample, kImage).ok() || !CheckWhole(sample, kCaption).ok() ||
               !CheckWhole(sample, kJson).ok() || !CheckWhole(sample, kCondition).ok();
      });
  if (!index->damage.empty() && !has_cut_sample) {
    samples_.emplace_back();
    samples_.back().shard = shard;
  }
  const int64_t limit =
      std::min<int64_t>(options_.max_samples, std::numeric_limits<int32_t>::max());
  if (static_cast<int64_t>(samples_.size()) <= limit) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("data set ", pattern_, ": more than ", limit,
                                                 " samples in the shards up to ", path));
}

void TarDataset::AddArchive(const std::vector<TarMember>& members, size_t begin, size_t end) {
  const auto key_of = [](const std::string& name) {
    return name.substr(0, name.find('.', BaseOf(name) + 1));
  };
  const auto is_dotted = [](const TarMember& member) {
    return !IsHidden(member.name) && FieldOf(member.name).part == kNumParts &&
           FieldByLastDot(member.name).part != kNumParts;
  };
  // Keys, by WebDataset's rule, that have fields. Most archives do not need them.
  std::unordered_set<std::string> keys;
  if (std::any_of(members.begin() + begin, members.begin() + end, is_dotted)) {
    for (size_t i = begin; i < end; ++i) {
      const Field field = FieldOf(members[i].name);
      if (field.part != kNumParts && !IsHidden(members[i].name)) keys.insert(field.key);
    }
  }
  std::vector<Sample> found;
  std::unordered_map<std::string, size_t> places;  // in `found`, by key
  for (size_t i = begin; i < end; ++i) {
    const TarMember& member = members[i];
    if (IsHidden(member.name)) {
      ++num_hidden_;
      continue;
    }
    Field field = FieldOf(member.name);
    if (field.part == kNumParts) field = FieldByLastDot(member.name);
    if (field.part == kNumParts) continue;
    const std::string first_key = key_of(member.name);
    if (field.key != first_key && keys.count(first_key) > 0) {
      other_fields_.Add(member.name);
      continue;
    }
    const auto [place, is_new] = places.emplace(field.key, found.size());
    if (is_new) {
      found.emplace_back();
      found.back().shard = static_cast<int32_t>(shards_.size()) - 1;
      found.back().archive = member.archive;
      found.back().key = field.key;
    }
    AddMember(member, field, &found[place->second]);
  }
  for (Sample& sample : found) {
    if (sample.parts[kImage].size < 0) {
      ++num_keys_without_image_;
    } else {
      samples_.push_back(std::move(sample));
    }
  }
}

void TarDataset::AddMember(const TarMember& member, const Field& field, Sample* sample) {
  Place& place = sample->parts[field.part];
  if (place.size >= 0) replaced_.Add(absl::StrCat(sample->key, ".", place.extension));
  place = {member.offset, member.size, field.extension};
}

TarDataset::Field TarDataset::FieldAt(const std::string& name, size_t dot) {
  static constexpr struct {
    const char* extension;
    Part part;
  } kFields[] = {{"jpg", kImage},  {"jpeg", kImage},         {"png", kImage},
                 {"webp", kImage}, {"txt", kCaption},        {"caption", kCaption},
                 {"json", kJson},  {"cond.png", kCondition}, {"conditioning.png", kCondition}};
  if (dot == std::string::npos || dot <= BaseOf(name)) return {};
  const std::string extension = absl::AsciiStrToLower(name.substr(dot + 1));
  for (const auto& field : kFields) {
    if (extension == field.extension) return {name.substr(0, dot), field.extension, field.part};
  }
  return {};
}

TarDataset::Field TarDataset::FieldOf(const std::string& name) {
  return FieldAt(name, name.find('.', BaseOf(name) + 1));
}

TarDataset::Field TarDataset::FieldByLastDot(const std::string& name) {
  const size_t last = name.rfind('.');
  if (last == std::string::npos || last == 0) return {};
  const Field field = FieldAt(name, name.rfind('.', last - 1));  // .cond.png
  return field.part != kNumParts ? field : FieldAt(name, last);
}

void TarDataset::CollectNotes() {
  int64_t num_damaged = 0, num_with_rest = 0;
  for (const Shard& shard : shards_) {
    num_damaged += !shard.damage.empty();
    num_with_rest += !shard.rest.empty();
  }
  const auto first = [this](std::string Shard::*text) -> const std::string& {
    return (*std::find_if(shards_.begin(), shards_.end(),
                          [&](const Shard& shard) { return !(shard.*text).empty(); })).*
           text;
  };
  if (num_damaged > 0) {
    notes_.push_back(absl::StrCat(
        num_damaged, " of ", Count(shards_.size(), "shard"),
        " are damaged and read as far as possible, the first: ", first(&Shard::damage)));
  }
  if (num_with_rest > 0) {
    notes_.push_back(absl::StrCat(Count(num_with_rest, "shard"),
                                  num_with_rest == 1 ? " is" : " are",
                                  " not read completely, the first: ", first(&Shard::rest)));
  }
  if (num_keys_without_image_ > 0 || num_hidden_ > 0) {
    notes_.push_back(absl::StrCat("ignored: ", num_keys_without_image_,
                                  " keys without a JPEG, PNG or WebP image, ", num_hidden_,
                                  " members whose names begin with a dot"));
  }
  if (num_links_ > 0) {
    notes_.push_back(absl::StrCat(Count(num_links_, "link"),
                                  " not followed; tar --dereference packs the files instead"));
  }
  if (other_fields_.count() > 0) {
    notes_.push_back(absl::StrCat(Count(other_fields_.count(), "member"),
                                  " with several dots in the name ignored beside members of the "
                                  "same key (WebDataset's rule): ",
                                  other_fields_.ToString()));
  }
  if (replaced_.count() > 0) {
    notes_.push_back(
        absl::StrCat(Count(replaced_.count(), "member"),
                     " replaced by later ones of the same samples: ", replaced_.ToString()));
  }
  const int64_t num_without_caption =
      std::count_if(samples_.begin(), samples_.end(), [this](const Sample& sample) {
        return CheckWhole(sample, kImage).ok() && sample.parts[kCaption].size < 0 &&
               sample.parts[kJson].size < 0;
      });
  if (num_without_caption > 0) {
    notes_.push_back(
        absl::StrCat(num_without_caption, " of the ", samples_.size(),
                     " images have no .txt, .caption or .json ",
                     options_.default_caption.has_value()
                         ? absl::StrCat("and get the caption \"", *options_.default_caption, "\"")
                         : absl::StrCat("and will be skipped: ", kWithoutCaptions)));
  }
}

void TarDataset::ComputeFingerprint() {
  Fingerprint fingerprint;
  for (const Sample& sample : samples_) {
    const std::string& path = shards_[sample.shard].path;
    fingerprint.Add(absl::string_view(path).substr(BaseOf(path))).Add(sample.key);
    if (sample.archive > 0) fingerprint.AddNumber(sample.archive);
    for (const Place& place : sample.parts) fingerprint.Add(place.extension).AddNumber(place.size);
  }
  fingerprint_ = fingerprint.ToString();
}

std::string TarDataset::Describe(const Sample& sample, Part part) const {
  const std::string& shard = shards_[sample.shard].path;
  const std::string name = absl::StrCat(shard, ": ", sample.key, ".", sample.parts[part].extension);
  return sample.archive == 0 ? name : absl::StrCat(name, " (archive ", sample.archive + 1, ")");
}

std::string TarDataset::image_path(int32_t index) const {
  const Sample& sample = samples_[index];
  return IsDamage(sample) ? shards_[sample.shard].path : Describe(sample, kImage);
}

bool TarDataset::has_condition(int32_t index) const {
  const Sample& sample = samples_[index];
  return IsDamage(sample) || sample.parts[kCondition].size >= 0;
}

std::vector<std::string> TarDataset::findings() const {
  return findings_.Describe([this](int32_t index) {
    const std::string path = image_path(index);
    return path.substr(shards_[samples_[index].shard].path.rfind('/') + 1);
  });
}

absl::Status TarDataset::CheckWhole(const Sample& sample, Part part) const {
  const Shard& shard = shards_[sample.shard];
  if (IsDamage(sample)) return absl::InvalidArgumentError(shard.damage);
  const Place& place = sample.parts[part];
  if (place.size <= shard.size - place.offset) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(Describe(sample, part), ": truncated: it has ",
                                                 place.size, " bytes, but the file ends after ",
                                                 std::max<int64_t>(0, shard.size - place.offset)));
}

absl::StatusOr<std::string> TarDataset::Read(const Sample& sample, Part part,
                                             int64_t max_bytes) const {
  DPIPE_RETURN_IF_ERROR(CheckWhole(sample, part));
  const Place& place = sample.parts[part];
  if (place.size > max_bytes) {
    return absl::InvalidArgumentError(absl::StrCat(Describe(sample, part), ": ", place.size,
                                                   " bytes, more than the limit of ", max_bytes));
  }
  return ReadFilePart(shards_[sample.shard].path, place.offset, place.size);
}

absl::StatusOr<Captions> TarDataset::ReadCaptions(const Sample& sample) const {
  Captions captions;
  if (sample.parts[kCaption].size >= 0) {
    DPIPE_ASSIGN_OR_RETURN(const std::string text, Read(sample, kCaption, kMaxCaptionBytes));
    captions.texts.push_back(CaptionText(text, &captions.are_utf8));
    return captions;
  }
  const bool is_optional = options_.default_caption.has_value();
  if (sample.parts[kJson].size < 0) {
    DPIPE_RETURN_IF_ERROR(CheckWhole(sample, kImage));
    if (is_optional) return captions;
    return absl::NotFoundError(
        absl::StrCat(Describe(sample, kImage), ": no .txt, .caption or .json"));
  }
  DPIPE_ASSIGN_OR_RETURN(const std::string text, Read(sample, kJson, kMaxCaptionBytes));
  const std::string name = Describe(sample, kJson);
  const auto in_json = [&]() -> absl::StatusOr<Captions> {
    const std::string decoded = DecodeText(text);
    DPIPE_RETURN_IF_ERROR(CheckUtf8(decoded));
    DPIPE_ASSIGN_OR_RETURN(const auto json, ParseJsonObject<nlohmann::ordered_json>(decoded, name));
    DPIPE_ASSIGN_OR_RETURN(captions, caption_column_.Of(json));
    if (captions.texts.empty() && !is_optional) return caption_column_.Missing(json);
    return captions;
  };
  absl::StatusOr<Captions> found = in_json();
  if (found.ok() || absl::StartsWith(found.status().message(), name)) return found;
  return absl::Status(found.status().code(), absl::StrCat(name, ": ", found.status().message()));
}

absl::StatusOr<std::vector<std::string>> TarDataset::LoadCaptions(int32_t index) const {
  DPIPE_ASSIGN_OR_RETURN(Captions captions, ReadCaptions(samples_[index]));
  if (!captions.are_utf8) findings_.Add(SampleFinding::kNotUtf8, index);
  if (captions.texts.empty()) captions.texts.push_back(*options_.default_caption);
  return std::move(captions.texts);
}

absl::StatusOr<Image> TarDataset::LoadImage(int32_t index) const {
  const Sample& sample = samples_[index];
  DPIPE_ASSIGN_OR_RETURN(const std::string bytes,
                         Read(sample, kImage, options_.decode_limits.max_file_bytes));
  DPIPE_ASSIGN_OR_RETURN(Image image,
                         DecodeImage(bytes, image_path(index), options_.decode_limits));
  if (image.had_transparency) findings_.Add(SampleFinding::kTransparent, index);
  return image;
}

absl::StatusOr<ImageSize> TarDataset::LoadImageSize(int32_t index) const {
  const Sample& sample = samples_[index];
  DPIPE_RETURN_IF_ERROR(CheckWhole(sample, kImage));
  const Place& place = sample.parts[kImage];
  return ReadImageSize(shards_[sample.shard].path, place.offset, place.size, image_path(index),
                       options_.decode_limits);
}

absl::StatusOr<std::string> TarDataset::LoadIdentity(int32_t index) const {
  const Sample& sample = samples_[index];
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity shard, IdentifyFile(shards_[sample.shard].path));
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
