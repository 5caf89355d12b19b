#include "core/train/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "core/base/files/durable_file.h"
#include "core/base/files/file.h"
#include "core/base/files/open_file.h"
#include "core/train/checkpoint/checkpoint_writer.h"

namespace dpipe {
namespace {

namespace fs = std::filesystem;

constexpr char kPrefix[] = "step_";
constexpr char kAsideSuffix[] = ".aside";
constexpr char kLockFile[] = "LOCK";

absl::StatusOr<std::vector<std::string>> Names(const std::string& folder) {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    names.push_back(it->path().filename().string());
  }
  std::sort(names.begin(), names.end());
  if (!error) return names;
  return absl::UnavailableError(absl::StrCat("cannot list ", folder, ": ", error.message()));
}

absl::Status Rename(const std::string& from, const std::string& to) {
  std::error_code error;
  fs::rename(from, to, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("cannot rename ", from, " to ", to, ": ", error.message()));
}

absl::Status RemoveAll(const std::string& path) {
  std::error_code error;
  fs::remove_all(path, error);
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(absl::StrCat("cannot remove ", path, ": ", error.message()));
}

// Renames first: a partly removed checkpoint must not look like a checkpoint.
absl::Status RemoveCheckpoint(const std::string& folder) {
  const std::string to_remove = folder + kUnfinishedSuffix;
  DPIPE_RETURN_IF_ERROR(RemoveAll(to_remove));
  DPIPE_RETURN_IF_ERROR(Rename(folder, to_remove));
  return RemoveAll(to_remove);
}

// Returns the steps to remove. `steps` are increasing, and the last one has just been written.
std::vector<int64_t> StepsToRemove(const std::vector<int64_t>& steps,
                                   const CheckpointRetention& retention) {
  const size_t keep_last = std::max(1, retention.keep_last);
  std::vector<int64_t> to_remove;
  for (size_t i = 0; i + keep_last < steps.size(); ++i) {
    const bool for_ever = retention.keep_every > 0 && steps[i] % retention.keep_every == 0;
    if (!for_ever) to_remove.push_back(steps[i]);
  }
  return to_remove;
}

// Takes the lock; closes the file on failure.
absl::StatusOr<int> Acquire(int fd, const std::string& folder, const std::string& lock) {
  // The system releases the lock when the process ends, however it ends.
  if (::flock(fd, LOCK_EX | LOCK_NB) == 0) return fd;
  const bool taken = errno == EWOULDBLOCK;
  const std::string why = std::strerror(errno);
  ::close(fd);
  if (taken) {
    return absl::FailedPreconditionError(
        absl::StrCat("another process is training into ", folder, ": it holds ", lock));
  }
  return absl::UnavailableError(absl::StrCat("cannot lock ", lock, ": ", why));
}

// Returns the descriptor of the lock file, which this process holds.
absl::StatusOr<int> Lock(const std::string& folder, const std::string& lock) {
  const int fd = ::open(lock.c_str(), O_RDWR | O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0644);
  return fd < 0 ? FileError("cannot open", lock, errno) : Acquire(fd, folder, lock);
}

// True if the path still refers to the open file.
bool IsFile(int fd, const std::string& path) {
  struct stat open_file, file;
  return ::fstat(fd, &open_file) == 0 && ::stat(path.c_str(), &file) == 0 &&
         open_file.st_dev == file.st_dev && open_file.st_ino == file.st_ino;
}

}  // namespace

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::Open(const std::string& path) {
  const std::string lock = absl::StrCat(path, "/", kLockFile);
  int fd = -1;
  do {
    if (fd >= 0) ::close(fd);
    DPIPE_RETURN_IF_ERROR(MakeFolder(path));
    DPIPE_ASSIGN_OR_RETURN(fd, Lock(path, lock));
  } while (!IsFile(fd, lock));  // the previous owner has removed it with the folder
  auto folder = std::unique_ptr<CheckpointFolder>(new CheckpointFolder(path, fd));
  DPIPE_RETURN_IF_ERROR(folder->RemoveUnfinished());
  return folder;
}

absl::StatusOr<std::unique_ptr<CheckpointFolder>> CheckpointFolder::OpenReadOnly(
    const std::string& path) {
  const std::string lock = absl::StrCat(path, "/", kLockFile);
  // If there is no lock, or this user may not read it, no process is known to have the folder.
  const int fd = ::open(lock.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
  if (fd >= 0) {
    DPIPE_RETURN_IF_ERROR(Acquire(fd, path, lock).status());
    ::close(fd);
  }
  return std::unique_ptr<CheckpointFolder>(new CheckpointFolder(path, /*lock_fd=*/-1));
}

CheckpointFolder::~CheckpointFolder() {
  if (is_read_only()) return;
  const auto names = Names(path_);
  // No other process can take the folder in the meantime.
  if (names.ok() && *names == std::vector<std::string>{kLockFile}) {
    ::unlink(absl::StrCat(path_, "/", kLockFile).c_str());
    ::rmdir(path_.c_str());
  }
  ::close(lock_fd_);
}

absl::Status CheckpointFolder::RemoveUnfinished() const {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(path_));
  for (const std::string& name : names) {
    if (!absl::StartsWith(name, kPrefix) || !absl::EndsWith(name, kUnfinishedSuffix)) continue;
    DPIPE_RETURN_IF_ERROR(RemoveAll(path_ + "/" + name));
  }
  return absl::OkStatus();
}

std::string CheckpointFolder::PathOf(int64_t step) const {
  return absl::StrFormat("%s/%s%08d", path_, kPrefix, step);
}

absl::StatusOr<std::vector<int64_t>> CheckpointFolder::Steps() const {
  std::error_code error;
  if (is_read_only() && !fs::exists(path_, error)) return std::vector<int64_t>();
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(path_));
  std::vector<int64_t> steps;
  for (const std::string& name : names) {
    absl::string_view digits = name;
    int64_t step = 0;
    if (!absl::ConsumePrefix(&digits, kPrefix) || !absl::SimpleAtoi(digits, &step)) continue;
    if (PathOf(step) == path_ + "/" + name) steps.push_back(step);
  }
  std::sort(steps.begin(), steps.end());
  return steps;
}

absl::StatusOr<std::unique_ptr<Checkpoint>> CheckpointFolder::OpenNewest(
    const std::function<void(const std::string&)>& say) const {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  for (auto step = steps.rbegin(); step != steps.rend(); ++step) {
    auto checkpoint = Checkpoint::Open(PathOf(*step));
    if (checkpoint.ok()) return checkpoint;
    say(absl::StrCat("Skipped: ", checkpoint.status().message()));
  }
  if (!steps.empty()) {
    return absl::DataLossError(
        absl::StrCat("none of the ", steps.size(), " checkpoints in ", path_, " can be read"));
  }
  return std::unique_ptr<Checkpoint>();
}

absl::StatusOr<std::vector<std::string>> CheckpointFolder::SetAsideAfter(int64_t step) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<int64_t> steps, Steps());
  std::error_code error;
  std::vector<std::string> aside;
  for (const int64_t later : steps) {
    if (later <= step) continue;
    std::string name = PathOf(later) + kAsideSuffix;
    for (int i = 2; fs::exists(name, error); ++i)
      name = absl::StrCat(PathOf(later), kAsideSuffix, i);
    DPIPE_RETURN_IF_ERROR(Rename(PathOf(later), name));
    aside.push_back(std::move(name));
  }
  DPIPE_RETURN_IF_ERROR(SyncFolder(path_));
  return aside;
}

absl::StatusOr<int> CheckpointFolder::MoveAllTo(const std::string& other) {
  DPIPE_ASSIGN_OR_RETURN(const std::vector<std::string> names, Names(path_));
  int count = 0;
  for (const std::string& name : names) {  // sorted: the newest is last
    if (!absl::StartsWith(name, kPrefix)) continue;
    if (count == 0) DPIPE_RETURN_IF_ERROR(MakeFolder(other));
    DPIPE_RETURN_IF_ERROR(Rename(path_ + "/" + name, other + "/" + name));
    ++count;
  }
  if (count == 0) return 0;
  DPIPE_RETURN_IF_ERROR(SyncFolder(other));
  DPIPE_RETURN_IF_ERROR(SyncFolder(path_));
  return count;
}

absl::StatusOr<int64_t> CheckpointFolder::Write(const CheckpointContent& content) {
  return WriteCheckpoint(PathOf(content.info.step), content);
}

absl::Status CheckpointFolder::RemoveOld(int64_t newest, const CheckpointRetention& retention) {
  DPIPE_ASSIGN_OR_RETURN(std::vector<int64_t> steps, Steps());
  // Later checkpoints were not written by this run, and do not count.
  steps.erase(std::upper_bound(steps.begin(), steps.end(), newest), steps.end());
  for (const int64_t old : StepsToRemove(steps, retention)) {
    DPIPE_RETURN_IF_ERROR(RemoveCheckpoint(PathOf(old)));
  }
  return absl::OkStatus();
}

absl::StatusOr<int> CheckpointFolder::RemoveAllButNewest(int64_t step,
                                                         const CheckpointRetention& retention) {
  DPIPE_ASSIGN_OR_RETURN(std::vector<int64_t> steps, Steps());
  steps.erase(std::lower_bound(steps.begin(), steps.end(), step), steps.end());
  while (!steps.empty() && !Checkpoint::Open(PathOf(steps.back())).ok()) steps.pop_back();
  CheckpointRetention minimal = retention;
  minimal.keep_last = 1;
  const std::vector<int64_t> to_remove = StepsToRemove(steps, minimal);
  for (const int64_t old : to_remove) DPIPE_RETURN_IF_ERROR(RemoveCheckpoint(PathOf(old)));
  return static_cast<int>(to_remove.size());
}

absl::Status CheckpointFolder::Remove(int64_t step) { return RemoveCheckpoint(PathOf(step)); }

}  // namespace dpipe
