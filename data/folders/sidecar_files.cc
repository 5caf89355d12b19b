#include "data/folders/sidecar_files.h"

#include <algorithm>
#include <map>
#include <unordered_set>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "core/base/files/file.h"
#include "data/captions/caption_text.h"
#include "data/captions/sample_findings.h"

namespace dpipe {
namespace {

constexpr int64_t kMaxCaptionBytes = 1 << 20;
// Returns ".gif" for "cats/7.GIF", and "without an extension" for "cats/README".
std::string Extension(const std::string& file) {
  const std::string name = file.substr(file.rfind('/') + 1);
  const size_t dot = name.rfind('.');
  return dot == std::string::npos ? "without an extension"
                                  : absl::AsciiStrToLower(name.substr(dot));
}

// Returns "5 .gif, 2 .bmp": the unused files of the folder, the most frequent kinds first.
std::string DescribeIgnored(const FolderListing& listing,
                            const std::unordered_set<std::string>& used) {
  constexpr size_t kMaxKinds = 6;
  std::map<std::string, int64_t> by_kind;
  for (const std::string& file : listing.files) {
    if (used.count(file) == 0) ++by_kind[Extension(file)];
  }
  std::vector<std::pair<std::string, int64_t>> kinds(by_kind.begin(), by_kind.end());
  std::stable_sort(kinds.begin(), kinds.end(),
                   [](const auto& a, const auto& b) { return a.second > b.second; });
  int64_t num_others = 0;
  for (; kinds.size() > kMaxKinds; kinds.pop_back()) num_others += kinds.back().second;
  kinds.push_back({"of other kinds", num_others});
  kinds.push_back({"whose names begin with a dot", listing.num_hidden});
  kinds.push_back({"not regular files", listing.special.size()});
  kinds.push_back({"sub-folders that are symbolic links", listing.num_linked_folders});
  kinds.push_back({"unreadable sub-folders", listing.num_closed_folders});
  std::vector<std::string> parts;
  for (const auto& [kind, count] : kinds) {
    if (count > 0) parts.push_back(absl::StrCat(count, " ", kind));
  }
  return absl::StrJoin(parts, ", ");
}

// Returns "; ignored: 5 .gif", or "".
std::string IgnoredSuffix(const FolderListing& listing) {
  const std::string ignored = DescribeIgnored(listing, {});
  return ignored.empty() ? "" : absl::StrCat("; ignored: ", ignored);
}

// Collects images without a readable caption: the first few by name, the others by number.
class MissingCaptions {
 public:
  void Add(const std::string& image, const std::string& reason) {
    ++count_;
    if (named_.size() < kMaxNamed) named_.push_back(absl::StrCat(image, " (", reason, ")"));
  }
  absl::Status Result(const std::string& folder, size_t num_images) const {
    if (count_ == 0) return absl::OkStatus();
    const bool all_named = count_ == static_cast<int64_t>(named_.size());
    return absl::InvalidArgumentError(absl::StrCat(
        "data set ", folder, ": ", count_, " of its ", num_images,
        " images have no caption: ", absl::StrJoin(named_, ", "), all_named ? "" : ", ...",
        ". Captions are expected in a .txt or .caption file of the same name beside each image, or "
        "in a metadata.jsonl or metadata.csv with the columns file_name and text; ",
        kWithoutCaptions));
  }

 private:
  static constexpr size_t kMaxNamed = 5;
  int64_t count_ = 0;
  std::vector<std::string> named_;
};

// Makes samples of the images of a folder.
class SidecarFinder {
 public:
  SidecarFinder(const std::string& folder, const FolderListing& listing,
                const std::optional<std::string>& default_caption)
      : folder_(folder), listing_(listing), default_caption_(default_caption) {}

  absl::StatusOr<SidecarFiles> Run() {
    int64_t num_in_sub_folders = 0;
    for (const std::string& file : listing_.files) {
      if (!IsImageName(file)) continue;
      AddSample(file);
      num_in_sub_folders += absl::StrContains(file, '/');
    }
    const size_t num_images = found_.samples.size();
    if (num_images == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("data set ", folder_, ": neither metadata.jsonl nor metadata.csv nor any ",
                       "JPEG, PNG or WebP image", IgnoredSuffix(listing_)));
    }
    DPIPE_RETURN_IF_ERROR(missing_.Result(folder_, num_images));
    if (num_in_sub_folders > 0) {
      found_.notes.push_back(
          absl::StrCat(num_in_sub_folders, " of the ", num_images, " images are in sub-folders"));
    }
    const std::string ignored = DescribeIgnored(listing_, used_);
    if (!ignored.empty()) {
      found_.notes.push_back(absl::StrCat(
          "ignored: ", ignored,
          "; JPEG, PNG and WebP images are read, and .txt or .caption files of the same names"));
    }
    if (not_utf8_.count() > 0) {
      found_.notes.push_back(DescribeFinding(SampleFinding::kNotUtf8, not_utf8_));
    }
    return std::move(found_);
  }

 private:
  void AddSample(const std::string& image) {
    const std::string stem = image.substr(0, image.rfind('.'));
    SidecarSample sample;
    sample.image = image;
    FindCaption(stem, &sample);
    for (const char* suffix : kConditionSuffixes) {
      const std::string condition = absl::StrCat(stem, suffix);
      if (listing_.Contains(condition)) sample.condition = condition;
    }
    used_.insert(image);
    used_.insert(sample.condition);
    found_.samples.push_back(std::move(sample));
  }

  void FindCaption(const std::string& stem, SidecarSample* sample) {
    for (const std::string& file :
         {stem + ".txt", stem + ".caption", sample->image + ".txt", sample->image + ".caption"}) {
      if (!listing_.Contains(file)) continue;
      used_.insert(file);
      const auto text = ReadFile(absl::StrCat(folder_, "/", file), kMaxCaptionBytes);
      if (!text.ok()) return missing_.Add(sample->image, std::string(text.status().message()));
      bool is_utf8 = true;
      sample->caption = CaptionText(*text, &is_utf8);
      if (!is_utf8) not_utf8_.Add(file);
      return;
    }
    if (default_caption_.has_value()) {
      sample->caption = *default_caption_;
      sample->has_default_caption = true;
    } else {
      missing_.Add(sample->image, absl::StrCat("no ", stem, ".txt"));
    }
  }

  const std::string& folder_;
  const FolderListing& listing_;
  const std::optional<std::string>& default_caption_;
  std::unordered_set<std::string> used_;  // files
  MissingCaptions missing_;
  CountedNames not_utf8_;
  SidecarFiles found_;
};

}  // namespace

absl::StatusOr<SidecarFiles> FindSidecarFiles(const std::string& folder,
                                              const FolderListing& listing,
                                              const std::optional<std::string>& default_caption) {
  return SidecarFinder(folder, listing, default_caption).Run();
}

}  // namespace dpipe
