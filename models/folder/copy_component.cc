#include "models/folder/copy_component.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/str_cat.h"
#include "core/base/files/file.h"
#include "models/weights/weight_files.h"

namespace dpipe::models {
namespace {

namespace fs = std::filesystem;

absl::StatusOr<std::vector<std::string>> FileNames(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    std::error_code ignored;
    if (name[0] != '.' && entry.is_regular_file(ignored)) names.push_back(name);
  }
  if (!error) return names;
  return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
}

struct Copy {
  std::string name, new_name;
};

absl::StatusOr<std::vector<Copy>> Copies(const std::string& from, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, FileNames(from));
  const auto read = WeightFileNames(from);
  std::vector<Copy> copies;
  for (const std::string& name : names) {
    std::string new_name = name;
    if (IsWeightFile(name)) {
      if (!with_weights) continue;
      if (read.ok() && std::find(read->begin(), read->end(), name) == read->end()) continue;
      if (read.ok() && name == read->front()) new_name = WithoutVariant(name);
    }
    copies.push_back({name, new_name});
  }
  return copies;
}

}  // namespace

absl::Status CopyComponent(const std::string& from, const std::string& to, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Copy> copies, Copies(from, with_weights));
  DPIPE_RETURN_IF_ERROR(MakeFolder(to));
  for (const Copy& copy : copies) {
    DPIPE_RETURN_IF_ERROR(CopyFileAtomically(absl::StrCat(from, "/", copy.name),
                                             absl::StrCat(to, "/", copy.new_name)));
  }
  return absl::OkStatus();
}

absl::StatusOr<ComponentSize> SizeOfCopy(const std::string& from, bool with_weights) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<Copy> copies, Copies(from, with_weights));
  ComponentSize size;
  for (const Copy& copy : copies) {
    std::error_code error;
    const auto bytes = fs::file_size(absl::StrCat(from, "/", copy.name), error);
    size.bytes += error ? 0 : static_cast<int64_t>(bytes);
    ++size.num_files;
  }
  return size;
}

}  // namespace dpipe::models
