// Saves checkpoints while the training goes on.
//
// Between two steps the state is copied, which takes as much memory as the state itself and is all
// that training waits for; a thread of the lowest priority then writes the copy to the disk. A save
// waits for the one before it. Where memory is short, saving in the foreground needs no copy.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_SAVER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_SAVER_H_

#include <cstdint>
#include <string>
#include <thread>
#include <vector>

#include "core/base/status.h"
#include "core/base/time.h"
#include "core/train/checkpoint.h"
#include "core/train/checkpoint_folder.h"

namespace dpipe {

// A copy of the state, on a CPU device of its own; made by as many threads as given. Tensors that
// are private already are not copied again.
SessionState CopyState(const SessionState& state, int num_threads);

class CheckpointSaver {
 public:
  struct Options {
    CheckpointRetention retention;
    bool in_background = true;
    int copy_threads = 2;
  };
  struct Stats {
    int64_t num_saved = 0;
    int64_t last_step = -1;    // of the last one that is on the disk
    int64_t bytes = 0;         // of it
    Nanos total_stall_ns = 0;  // how long Save and Wait let training wait
    Nanos last_write_ns = 0;   // how long it took to write the last one
  };

  // `folder` outlives this, and nobody else uses it meanwhile.
  CheckpointSaver(CheckpointFolder* folder, const Options& options)
      : folder_(folder), options_(options) {}
  // Finishes what is being written.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // To be called between steps. In the background it returns when the state is copied; the error it
  // then returns is that of the save before, unless Wait has returned it, and the new one is begun
  // nevertheless. An error leaves the checkpoints that are there as they are, except on a disk that
  // is full: there all but the newest and those that stay for ever make room, and it is tried once
  // more.
  absl::Status Save(CheckpointContent content);
  // Until the disk has the last one; returns its error, once.
  absl::Status Wait();

  // Of the saves to come.
  void set_in_background(bool in_background) { options_.in_background = in_background; }

  // What a person should know of the saves that are finished, once. After Wait.
  std::vector<std::string> TakeNotes();

  // After Wait of everything, else of what is finished.
  const Stats& stats() const { return stats_; }

 private:
  absl::Status Write(const CheckpointContent& content);
  // Whether it is worth trying again.
  bool MakeRoom(int64_t step, const absl::Status& full);

  CheckpointFolder* const folder_;
  Options options_;
  Stats stats_;
  // What comes of the save under way; the thread's, while it runs.
  absl::Status status_;
  std::vector<std::string> notes_;
  std::thread thread_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_SAVER_H_
