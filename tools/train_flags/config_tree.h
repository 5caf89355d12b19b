// The value fields of a config message, found recursively through its sections.
#ifndef DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_TREE_H_
#define DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_TREE_H_

#include <string>
#include <vector>

#include "google/protobuf/descriptor.h"
#include "google/protobuf/message.h"
#include "tools/config_field.pb.h"

namespace dpipe::tools {

struct ConfigLeaf {
  std::string path;  // "optimizer.lr"
  FieldInfo info;
  std::vector<const google::protobuf::FieldDescriptor*> sections;  // from the root down
  const google::protobuf::FieldDescriptor* field = nullptr;

  bool is_bool() const {
    return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_BOOL;
  }
  bool is_text() const {
    return field->cpp_type() == google::protobuf::FieldDescriptor::CPPTYPE_STRING;
  }
};

// Returns the leaves in the order of their declaration.
std::vector<ConfigLeaf> ConfigLeaves(const google::protobuf::Descriptor& descriptor);

// Returns the message that contains the leaf, or a default instance if `config` lacks the section.
const google::protobuf::Message& HolderOf(const ConfigLeaf& leaf,
                                          const google::protobuf::Message& config);
google::protobuf::Message* MutableHolderOf(const ConfigLeaf& leaf,
                                           google::protobuf::Message* config);

// Returns the leaf's value in the format of a flag, or its default if it is not set.
std::string ValueText(const ConfigLeaf& leaf, const google::protobuf::Message& config);

}  // namespace dpipe::tools

#endif  // DPIPE_TOOLS_TRAIN_FLAGS_CONFIG_TREE_H_
