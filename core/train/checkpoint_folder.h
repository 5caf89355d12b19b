// A run's checkpoints: step_00001234 and so on in one folder.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_FOLDER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_FOLDER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_reader.h"

namespace dpipe {

// Which checkpoints stay: the newest ones, and some for ever.
struct CheckpointRetention {
  int keep_last = 3;       // at least 1: the newest complete one is never removed
  int64_t keep_every = 0;  // those at multiples of this many steps; 0: none
};

// One process at a time owns the folder. Not thread-safe, but for path().
class CheckpointFolder {
 public:
  // Makes the folder where there is none, takes it for this process until the end of the object or
  // of the process, and removes what others have left unfinished. FailedPrecondition where another
  // process has it; Unavailable where the folder cannot be made. The destructor removes the folder
  // if there is nothing in it.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> Open(const std::string& path);
  // To look at what is there, and no more: makes, takes and removes nothing. A folder that is not
  // there has no checkpoints. FailedPrecondition where another process has it now.
  static absl::StatusOr<std::unique_ptr<CheckpointFolder>> OpenToRead(const std::string& path);
  ~CheckpointFolder();
  CheckpointFolder(const CheckpointFolder&) = delete;
  CheckpointFolder& operator=(const CheckpointFolder&) = delete;

  const std::string& path() const { return path_; }
  // The folder of a step's checkpoint.
  std::string PathOf(int64_t step) const;
  // Of all that have a checkpoint's name, complete or not; increasing.
  absl::StatusOr<std::vector<int64_t>> Steps() const;

  // The newest that is complete; null where the folder has none at all. `say` is told of each newer
  // one what is wrong with it. DataLoss where there are some, and none is complete.
  absl::StatusOr<std::unique_ptr<Checkpoint>> OpenNewest(
      const std::function<void(const std::string&)>& say) const;

  // Before a run goes on from `step`, which may not be the newest: gives those of later steps names
  // that no one takes for this run's ("step_00001234.aside"), so that nothing is lost. Returns
  // their paths.
  absl::StatusOr<std::vector<std::string>> SetAsideAfter(int64_t step);
  // Before another run begins: moves all of them, also those that were set aside, to the folder
  // `other`, which is made and must be on the same file system; the newest last. Returns how many
  // there were.
  absl::StatusOr<int> MoveAllTo(const std::string& other);

  // Writes the checkpoint of content.info.step, as WriteCheckpoint does. Returns the bytes written.
  absl::StatusOr<int64_t> Write(const CheckpointContent& content);
  // Of the steps up to `newest`, which has been written: removes what `retention` does not keep.
  absl::Status RemoveOld(int64_t newest, const CheckpointRetention& retention);
  // To make room for `step`: of those before it removes all but the newest complete one and those
  // that `retention` keeps for ever. Returns how many; none where none is complete.
  absl::StatusOr<int> RemoveAllButNewest(int64_t step, const CheckpointRetention& retention);
  // Removes a step's checkpoint.
  absl::Status Remove(int64_t step);

 private:
  CheckpointFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}
  bool is_read_only() const { return lock_fd_ < 0; }
  absl::Status RemoveUnfinished() const;

  const std::string path_;
  const int lock_fd_;  // negative where it is only read
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_FOLDER_H_
