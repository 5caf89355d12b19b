// Command line flags for a config message: one flag per field, named by the field's path and
// documented by the message itself.
//
// A message like TrainConfig (proto2, with a FieldInfo on every field that holds a value) is
// enough: --optimizer.lr=1e-4 sets field lr of field optimizer, and so does --lr=1e-4 if the field
// has that alias. A list flag replaces the whole list; items are separated by "," (numbers) or "|"
// (strings). A bool flag without a value is true, or false with the prefix "no": --flip, --noflip.
//
// Errors are InvalidArgument: one sentence that names the flag or field, the value, and the allowed
// values.
#ifndef DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_FLAGS_H_
#define DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_FLAGS_H_

#include <map>
#include <string>
#include <vector>

#include "core/base/status.h"
#include "google/protobuf/message.h"

namespace dpipe::tools {

// Merges the content of a file, which may begin with UTF-8's byte-order mark, into `config`. Error
// messages name `path` and the line.
absl::Status MergeConfigText(const std::string& content, const std::string& path,
                             google::protobuf::Message* config);

// A command line flag, split into name and value; has_value is false for "--flip".
struct ConfigFlag {
  std::string name;
  std::string value;
  bool has_value = false;
};

// Splits "--a=1 -b=2 --c" into flags. If a flag has no "=" and its field is not a bool, the next
// argument is its value.
absl::StatusOr<std::vector<ConfigFlag>> SplitFlags(const std::vector<std::string>& arguments,
                                                   const google::protobuf::Message& config);

// Sets the field that the flag names, if the field's FieldInfo allows the value.
absl::Status ApplyConfigFlag(const ConfigFlag& flag, google::protobuf::Message* config);

// Checks that every field has a value that its FieldInfo allows.
absl::Status CheckConfig(const google::protobuf::Message& config);

// Returns one or more lines per field with flag, default and meaning, and a blank line between
// sections. The fields that are marked most_used come first, under their short names.
std::string ConfigHelp(const google::protobuf::Message& config);

// Returns the whole config as text, including defaults, so that it stays valid if defaults change.
std::string WholeConfigText(const google::protobuf::Message& config);

// Returns "optimizer.lr=0.0001" for every field that differs from its default, in order.
std::vector<std::string> ConfigDifferences(const google::protobuf::Message& config);

// Returns every field's value, keyed by path.
std::map<std::string, std::string> ConfigValues(const google::protobuf::Message& config);

// Returns the paths of all fields that hold a value, in order.
std::vector<std::string> ConfigPaths(const google::protobuf::Message& config);

// Returns the paths of those fields that hold free text: paths, names, prompts.
std::vector<std::string> ConfigTextFields(const google::protobuf::Message& config);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_FLAGS_H_
