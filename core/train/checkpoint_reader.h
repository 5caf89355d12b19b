// A checkpoint on the disk that has proved to be complete.
#ifndef DPIPE_CORE_TRAIN_CHECKPOINT_READER_H_
#define DPIPE_CORE_TRAIN_CHECKPOINT_READER_H_

#include <map>
#include <memory>
#include <string>

#include "core/base/status.h"
#include "core/runtime/state_tensor.h"
#include "core/tensor/safetensors.h"
#include "core/train/checkpoint.h"

namespace dpipe {

// Immutable; safe to use from several threads. The folder stays where it is meanwhile.
class Checkpoint {
 public:
  // Reads every file once to compare sizes and checksums with the manifest. DataLoss says which
  // file is missing, cut short or damaged, NotFound that there is no such folder.
  static absl::StatusOr<std::unique_ptr<Checkpoint>> Open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  const CheckpointInfo& info() const { return info_; }
  // Of one of CheckpointContent::texts; NotFound.
  absl::StatusOr<std::string> Text(const std::string& name) const;
  bool HasKind(const std::string& kind) const { return tensors_.count(kind) > 0; }

  // For LocalSession::Restore: parts of tensors straight from the files. NotFound for a kind or a
  // parameter that is not here, InvalidArgument for another shape or element type, with both. Holds
  // on to the files, not to this object.
  StateReader reader() const;

 private:
  using TensorFiles = std::map<std::string, SafetensorsFile>;  // by kind

  Checkpoint() = default;

  std::string folder_;
  CheckpointInfo info_;
  TensorFiles tensors_;
};

}  // namespace dpipe

#endif  // DPIPE_CORE_TRAIN_CHECKPOINT_READER_H_
