#include "data/outputs_apart.h"

#include <algorithm>
#include <filesystem>
#include <set>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/run_paths.h"
#include "core/base/text/show.h"
#include "data/tars/shard_pattern.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

std::string Show(const NamedPath& named) { return absl::StrCat(named.name, ShowText(named.path)); }

// The folders that contain the data. `has_output` is true if the file `output` is part of the data.
struct DataPlaces {
  std::set<std::string> folders;
  bool has_output = false;
};

DataPlaces PlacesOf(const std::string& data, const std::string& output) {
  if (IsFolder(data)) return {{data}, false};
  // If a pattern matches no file, opening it reports the error.
  const std::vector<std::string> files = FindShards(data).value_or(std::vector<std::string>{data});
  DataPlaces places;
  std::error_code error;
  const bool is_file = fs::is_regular_file(output, error);
  for (const std::string& file : files) {
    places.folders.insert(fs::absolute(file, error).parent_path());
    places.has_output = places.has_output || (is_file && fs::equivalent(file, output, error));
  }
  return places;
}

}  // namespace

absl::Status CheckNotInData(const NamedPath& output, const NamedPath& data) {
  if (output.path.empty() || data.path.empty()) return absl::OkStatus();
  if (IsWithin(output.path, data.path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(Show(output), " is inside ", Show(data),
                     ": the output would become data; choose another place for it"));
  }
  return absl::OkStatus();
}

absl::Status CheckHasNoData(const NamedPath& output, const NamedPath& data) {
  if (output.path.empty() || data.path.empty()) return absl::OkStatus();
  const DataPlaces places = PlacesOf(data.path, output.path);
  const auto& folders = places.folders;
  if (places.has_output ||
      std::any_of(folders.begin(), folders.end(),
                  [&output](const std::string& folder) { return IsWithin(folder, output.path); })) {
    return absl::InvalidArgumentError(
        absl::StrCat(Show(data), " is inside ", Show(output),
                     ", which is replaced or renamed as a whole; choose another place for it"));
  }
  return absl::OkStatus();
}

}  // namespace dpipe
