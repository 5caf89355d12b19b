#include "tools/train_flags/config_tree.h"

#include "absl/strings/str_cat.h"
#include "google/protobuf/text_format.h"

namespace dpipe::tools {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::TextFormat;

void Collect(const Descriptor& descriptor, const std::string& prefix,
             std::vector<const FieldDescriptor*>* sections, std::vector<ConfigLeaf>* leaves) {
  for (int i = 0; i < descriptor.field_count(); ++i) {
    const FieldDescriptor* field = descriptor.field(i);
    const std::string path = prefix + field->name();
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      sections->push_back(field);
      Collect(*field->message_type(), path + ".", sections, leaves);
      sections->pop_back();
    } else {
      leaves->push_back({path, field->options().GetExtension(info), *sections, field});
    }
  }
}

}  // namespace

std::vector<ConfigLeaf> ConfigLeaves(const Descriptor& descriptor) {
  std::vector<const FieldDescriptor*> sections;
  std::vector<ConfigLeaf> leaves;
  Collect(descriptor, "", &sections, &leaves);
  return leaves;
}

const Message& HolderOf(const ConfigLeaf& leaf, const Message& config) {
  const Message* holder = &config;
  for (const FieldDescriptor* section : leaf.sections) {
    holder = &holder->GetReflection()->GetMessage(*holder, section);
  }
  return *holder;
}

Message* MutableHolderOf(const ConfigLeaf& leaf, Message* config) {
  for (const FieldDescriptor* section : leaf.sections) {
    config = config->GetReflection()->MutableMessage(config, section);
  }
  return config;
}

std::string ValueText(const ConfigLeaf& leaf, const Message& config) {
  const Message& holder = HolderOf(leaf, config);
  const google::protobuf::Reflection& reflection = *holder.GetReflection();
  const auto item = [&](int index) {
    if (leaf.is_text()) {
      return index < 0 ? reflection.GetString(holder, leaf.field)
                       : reflection.GetRepeatedString(holder, leaf.field, index);
    }
    std::string text;
    TextFormat::PrintFieldValueToString(holder, leaf.field, index, &text);
    return text;
  };
  if (!leaf.field->is_repeated()) return item(-1);
  std::string list;
  for (int i = 0; i < reflection.FieldSize(holder, leaf.field); ++i) {
    absl::StrAppend(&list, i == 0 ? "" : leaf.is_text() ? "|" : ",", item(i));
  }
  return list;
}

}  // namespace dpipe::tools
