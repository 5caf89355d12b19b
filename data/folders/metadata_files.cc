#include "data/folders/metadata_files.h"

#include <algorithm>
#include <initializer_list>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

constexpr const char* kNames[] = {"metadata.jsonl", "metadata.csv"};  // by priority
constexpr char kParquet[] = "metadata.parquet";

absl::string_view BaseName(absl::string_view file) { return file.substr(file.rfind('/') + 1); }

// Returns the first folder of a path, in lower case.
std::string TopFolder(absl::string_view file) {
  const size_t slash = file.find('/');
  return slash == absl::string_view::npos ? "" : absl::AsciiStrToLower(file.substr(0, slash));
}

bool IsOneOf(const std::string& name, std::initializer_list<const char*> names) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// The names of splits in Hugging Face's data sets.
bool IsTraining(absl::string_view file) { return IsOneOf(TopFolder(file), {"train", "training"}); }
bool IsOtherSplit(absl::string_view file) {
  return IsOneOf(TopFolder(file),
                 {"test", "testing", "eval", "evaluation", "valid", "validation", "val", "dev"});
}

absl::Status ParquetError(const std::string& path) {
  return absl::UnimplementedError(absl::StrCat(
      path,
      ": Parquet tables are not read; write the table as metadata.jsonl (pandas: "
      "read_parquet(FILE).to_json(\"metadata.jsonl\", orient=\"records\", lines=True)), and "
      "the images in it as files"));
}

}  // namespace

absl::string_view FolderOf(absl::string_view file) { return file.substr(0, file.rfind('/') + 1); }

absl::StatusOr<MetadataFiles> FindMetadataFiles(const std::string& folder,
                                                const FolderListing& listing) {
  MetadataFiles found;
  for (const char* name : kNames) {
    if (found.files.empty() && listing.Contains(name)) found.files.push_back(name);
  }
  if (!found.files.empty()) return found;
  for (const std::string& file : listing.files) {
    const bool has_better =
        BaseName(file) == kNames[1] && listing.Contains(absl::StrCat(FolderOf(file), kNames[0]));
    if (!has_better && (BaseName(file) == kNames[0] || BaseName(file) == kNames[1])) {
      found.files.push_back(file);
    }
  }
  if (std::any_of(found.files.begin(), found.files.end(), IsTraining)) {
    const auto others = std::stable_partition(found.files.begin(), found.files.end(),
                                              [](const auto& file) { return !IsOtherSplit(file); });
    for (auto file = others; file != found.files.end(); ++file) {
      found.other_splits.emplace_back(FolderOf(*file));
      found.notes.push_back(absl::StrCat(*file,
                                         " belongs to another split and is not used for training "
                                         "(for evaluation: --evaluation.data=",
                                         folder, "/", file->substr(0, file->rfind('/')), ")"));
    }
    found.files.erase(others, found.files.end());
  }
  if (!found.files.empty()) return found;
  const bool has_image = std::any_of(listing.files.begin(), listing.files.end(), IsImageName);
  for (const std::string& file : listing.files) {
    if (BaseName(file) == kParquet || (!has_image && absl::EndsWith(file, ".parquet"))) {
      return ParquetError(absl::StrCat(folder, "/", file));
    }
  }
  return found;
}

}  // namespace dpipe
