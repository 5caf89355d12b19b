// The folder that a training run writes into, --out. Its entries have fixed names, so that programs
// and people find them, and a run is kept, moved or deleted as one folder.
#ifndef DPIPE_TOOLS_TRAINING_RUN_FOLDER_H_
#define DPIPE_TOOLS_TRAINING_RUN_FOLDER_H_

#include <string>
#include <utility>

#include "core/base/status.h"
#include "models/folder/find_folders.h"

namespace dpipe::tools {

class RunFolder {
 public:
  explicit RunFolder(std::string path) : path_(std::move(path)) {}

  // The model in diffusers layout. Each save replaces this folder as a whole, so everything else
  // lies beside it.
  std::string model() const { return In(models::kModelOfRun); }
  std::string best() const { return In("best"); }  // the model with the lowest held-out loss
  std::string checkpoints() const { return In("checkpoints"); }
  std::string samples() const { return In("samples"); }
  std::string tensorboard() const { return In("tensorboard"); }
  std::string bad_batches() const { return In("bad_batches"); }  // see FaultOptions
  std::string log() const { return In("log.jsonl"); }            // one line per step
  std::string mllog() const { return In("mllog.txt"); }          // in MLPerf's format
  std::string config() const { return In("config.textproto"); }
  std::string profile() const { return In("profile.textproto"); }  // of the plan, as is
  std::string cluster() const { return In("cluster.textproto"); }
  // Facts about the data, which outlive a run: images that cannot be read, and sizes of images.
  std::string quarantine() const { return In("quarantine.jsonl"); }
  std::string image_sizes() const { return In("image_sizes"); }

 private:
  std::string In(const std::string& name) const { return path_ + "/" + name; }

  const std::string path_;
};

// Checks that a run may write into `out`: it does not exist, is empty, or has an entry of a run.
// Returns FailedPrecondition otherwise, because it is a user's folder, and for the folder of an
// earlier version's run, whose parts lay beside its model (OUT.checkpoints, OUT.log.jsonl, ...);
// its message has the commands that move them into one folder.
absl::Status CheckIsRunFolder(const std::string& out);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAINING_RUN_FOLDER_H_
