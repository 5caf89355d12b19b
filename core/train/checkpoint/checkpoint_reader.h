// A checkpoint on disk that has been verified as complete.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_READER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_READER_H_

#include <map>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/runtime/state_tensor.h"
#include "core/tensor/safetensors.h"
#include "core/train/checkpoint/checkpoint.h"

namespace dpipe {

// Immutable and thread-safe. The folder must stay in place while this is in use.
class Checkpoint {
 public:
  // Reads every file once to compare sizes and checksums with the manifest. Returns DataLoss with
  // the file that is missing, truncated or damaged, and NotFound if there is no such folder.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return info_; }
  // Returns one of CheckpointContent::texts, or NotFound.
  absl::StatusOr<std::string> Text(const std::string& name) const;
  bool HasKind(const std::string& kind) const { return tensors_.count(kind) > 0; }

  // Returns a reader for LocalSession::Restore, which reads parts of tensors directly from the
  // files. It returns NotFound for a kind or a parameter that is not here, and InvalidArgument,
  // with both values, if shape or element type differ. Keeps the files open, but not this object
  // alive.
  StateReader reader() const;

 private:
  using TensorFiles = std::map<std::string, SafetensorsFile>;  // by kind

  Checkpoint() = default;

  std::string folder_;
  CheckpointInfo info_;
  TensorFiles tensors_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_CHECKPOINT_READER_H_
