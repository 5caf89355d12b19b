#include "data/folder_dataset.h"

#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <limits>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "core/base/file.h"
#include "data/caption_text.h"
#include "data/file_part.h"
#include "nlohmann/json.hpp"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kMaxCaptionBytes = 1 << 20;
constexpr const char* kConditionColumn = "conditioning_image";
constexpr const char* kConditionSuffixes[] = {".cond.png", ".conditioning.png"};
constexpr size_t kMaxSamples = std::numeric_limits<int32_t>::max();

bool IsFile(const std::string& path) {
  struct stat info;
  return stat(path.c_str(), &info) == 0 && S_ISREG(info.st_mode);
}

// Whether a relative path stays below the folder it is relative to.
bool StaysInside(const std::string& file_name) {
  if (file_name.empty() || file_name[0] == '/' || file_name.find('\0') != std::string::npos) {
    return false;
  }
  for (const absl::string_view part : absl::StrSplit(file_name, '/')) {
    if (part == "..") return false;
  }
  return true;
}

bool HasImageExtension(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  return absl::EndsWith(lower, ".jpg") || absl::EndsWith(lower, ".jpeg") ||
         absl::EndsWith(lower, ".png") || absl::EndsWith(lower, ".webp");
}

// Whether a file beside the images is a condition picture.
bool HasConditionSuffix(const std::string& name) {
  const std::string lower = absl::AsciiStrToLower(name);
  for (const char* suffix : kConditionSuffixes) {
    if (absl::EndsWith(lower, suffix)) return true;
  }
  return false;
}

// Names of the images directly in `folder`, in byte order.
absl::StatusOr<std::vector<std::string>> ListImages(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (HasImageExtension(name) && !HasConditionSuffix(name)) names.push_back(name);
  }
  if (error) {
    return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

absl::StatusOr<FolderDataset> FolderDataset::Open(const std::string& folder,
                                                  const FolderDatasetOptions& options) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    return absl::NotFoundError(absl::StrCat("data set ", folder, ": no such folder"));
  }
  FolderDataset dataset(folder, options);
  const std::string metadata = absl::StrCat(folder, "/metadata.jsonl");
  DPIPE_RETURN_IF_ERROR(IsFile(metadata) ? dataset.ReadMetadata(metadata) : dataset.ReadSidecars());
  if (dataset.samples_.size() > kMaxSamples) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", folder, ": ", dataset.samples_.size(), " samples, more than ", kMaxSamples));
  }
  return dataset;
}

absl::Status FolderDataset::ReadMetadata(const std::string& path) {
  DPIPE_ASSIGN_OR_RETURN(const std::string content, ReadFile(path));
  int64_t line_number = 0;
  for (absl::string_view line : absl::StrSplit(WithoutByteOrderMark(content), '\n')) {
    ++line_number;
    line = absl::StripAsciiWhitespace(line);
    if (line.empty()) continue;
    auto sample = ParseLine(std::string(line));
    if (!sample.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " line ", line_number, ": ", sample.status().message()));
    }
    samples_.push_back(*std::move(sample));
  }
  if (!samples_.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(path, ": no samples"));
}

absl::StatusOr<FolderDataset::Sample> FolderDataset::ParseLine(const std::string& line) const {
  DPIPE_RETURN_IF_ERROR(CheckUtf8(line));
  const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError("not a JSON object");
  const auto is_string = [&json](const std::string& key) {
    return json.contains(key) && json[key].is_string();
  };
  std::string column = options_.caption_column;
  if (column.empty())
    column = !json.contains("text") && json.contains("caption") ? "caption" : "text";
  for (const std::string& key : {std::string("file_name"), column}) {
    if (!is_string(key)) return absl::InvalidArgumentError(absl::StrCat("no string \"", key, "\""));
  }
  Sample sample = {json["file_name"], CaptionText(json[column].get<std::string>()), ""};
  DPIPE_RETURN_IF_ERROR(CheckFile("file_name", sample.file_name));
  if (!json.contains(kConditionColumn) || json[kConditionColumn].is_null()) return sample;
  if (!is_string(kConditionColumn)) {
    return absl::InvalidArgumentError(absl::StrCat("\"", kConditionColumn, "\" is no string"));
  }
  sample.condition = json[kConditionColumn];
  DPIPE_RETURN_IF_ERROR(CheckFile(kConditionColumn, sample.condition));
  return sample;
}

absl::Status FolderDataset::CheckFile(const char* what, const std::string& file_name) const {
  if (!StaysInside(file_name)) {
    return absl::InvalidArgumentError(
        absl::StrCat(what, " \"", file_name, "\" is not a path below the folder"));
  }
  if (IsFile(absl::StrCat(folder_, "/", file_name))) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat("no such image: ", file_name));
}

absl::Status FolderDataset::ReadSidecars() {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListImages(folder_));
  if (names.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", folder_, ": neither metadata.jsonl nor any JPEG, PNG or WebP image"));
  }
  for (const std::string& name : names) {
    const std::string stem = name.substr(0, name.rfind('.'));
    const std::string caption_path = absl::StrCat(folder_, "/", stem, ".txt");
    const auto caption = ReadFile(caption_path, kMaxCaptionBytes);
    if (!caption.ok()) {
      return absl::InvalidArgumentError(
          absl::StrCat("data set ", folder_, ": no metadata.jsonl, and the caption of ", name,
                       " cannot be read: ", caption.status().message()));
    }
    Sample sample = {name, CaptionText(*caption), ""};
    for (const char* suffix : kConditionSuffixes) {
      const std::string condition = absl::StrCat(stem, suffix);
      if (IsFile(absl::StrCat(folder_, "/", condition))) sample.condition = condition;
    }
    samples_.push_back(std::move(sample));
  }
  return absl::OkStatus();
}

std::string FolderDataset::image_path(int32_t index) const {
  return absl::StrCat(folder_, "/", samples_[index].file_name);
}

absl::StatusOr<Image> FolderDataset::LoadImage(int32_t index) const {
  return ReadImage(image_path(index), options_.decode_limits);
}

absl::StatusOr<ImageSize> FolderDataset::LoadImageSize(int32_t index) const {
  const std::string path = image_path(index);
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
  return ReadImageSize(path, 0, identity.size, path, options_.decode_limits);
}

absl::StatusOr<std::string> FolderDataset::LoadIdentity(int32_t index) const {
  const std::string path = image_path(index);
  DPIPE_ASSIGN_OR_RETURN(const FileIdentity identity, IdentifyFile(path));
  return absl::StrCat(path, " ", identity.size, " ", identity.changed_ns);
}

absl::StatusOr<Image> FolderDataset::LoadCondition(int32_t index) const {
  if (!has_condition(index)) {
    return absl::NotFoundError(absl::StrCat(image_path(index), ": no condition picture"));
  }
  return ReadImage(absl::StrCat(folder_, "/", samples_[index].condition), options_.decode_limits);
}

}  // namespace dpipe
