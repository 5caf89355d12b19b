#include "data/folders/folder_listing.h"

#include <algorithm>
#include <filesystem>
#include <iterator>
#include <system_error>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

// Adds the content of `folder` to `listing`, with `prefix` ("" or "cats/") before each name.
// Appends the sub-folders still to be listed to `sub_folders`.
std::error_code ListOne(const fs::path& folder, const std::string& prefix, FolderListing* listing,
                        std::vector<std::string>* sub_folders) {
  std::error_code error;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    std::error_code ignored;  // of a broken link
    if (name[0] == '.') {
      ++listing->num_hidden;
    } else if (!at->is_directory(ignored)) {
      const bool is_missing = at->is_symlink(ignored) && !at->exists(ignored);
      if (at->is_regular_file(ignored) || is_missing) {
        listing->files.push_back(prefix + name);
      } else {
        listing->special.push_back(prefix + name);
      }
    } else if (at->is_symlink(ignored)) {
      ++listing->num_linked_folders;
    } else {
      sub_folders->push_back(absl::StrCat(prefix, name, "/"));
    }
  }
  return error;
}

constexpr const char* kImageExtensions[] = {".jpg", ".jpeg", ".png", ".webp"};

}  // namespace

bool IsImageName(const std::string& file) {
  const std::string lower = absl::AsciiStrToLower(file);
  const auto ends_with = [&](const char* ending) { return absl::EndsWith(lower, ending); };
  return std::any_of(std::begin(kImageExtensions), std::end(kImageExtensions), ends_with) &&
         std::none_of(std::begin(kConditionSuffixes), std::end(kConditionSuffixes), ends_with);
}

bool FolderListing::Contains(const std::string& file) const {
  return std::binary_search(files.begin(), files.end(), file);
}

absl::StatusOr<FolderListing> ListFolder(const std::string& folder) {
  FolderListing listing;
  std::vector<std::string> waiting = {""};
  while (!waiting.empty()) {
    const std::string prefix = waiting.back();
    waiting.pop_back();
    const fs::path path = fs::path(folder) / prefix;
    const std::error_code error = ListOne(path, prefix, &listing, &waiting);
    if (error == std::errc::permission_denied && !prefix.empty()) {
      ++listing.num_closed_folders;
    } else if (error) {
      return absl::UnavailableError(
          absl::StrCat("cannot list ", path.string(), ": ", error.message()));
    }
  }
  std::sort(listing.files.begin(), listing.files.end());
  std::sort(listing.special.begin(), listing.special.end());
  return listing;
}

}  // namespace dpipe
