#include "core/base/files/scratch_folder.h"

#include <stdlib.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "core/base/check.h"

namespace dpipe {
namespace {

std::string ParentOf(ScratchFolder::Place place) {
  if (place == ScratchFolder::Place::kMemory && access("/dev/shm", W_OK) == 0) return "/dev/shm";
  for (const char* variable : {"TEST_TMPDIR", "TMPDIR"}) {
    const char* value = getenv(variable);
    if (value != nullptr && *value != '\0') return value;
  }
  return "/tmp";
}

}  // namespace

ScratchFolder::ScratchFolder(Place place)
    : path_(absl::StrCat(ParentOf(place), "/dpipe_scratch_XXXXXX")) {
  DPIPE_CHECK(mkdtemp(&path_[0]) != nullptr) << path_ << ": " << strerror(errno);
}

ScratchFolder::~ScratchFolder() {
  // Restores write access to a folder that a test made read-only. Its content could not be removed
  // otherwise.
  std::error_code ignored;
  std::filesystem::permissions(path_, std::filesystem::perms::owner_all,
                               std::filesystem::perm_options::add, ignored);
  std::filesystem::remove_all(path_, ignored);
}

std::string ScratchFolder::File(absl::string_view name) const {
  return absl::StrCat(path_, "/", name);
}

}  // namespace dpipe
