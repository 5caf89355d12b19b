"""Built-in values under other names: a file cannot read a built-in value whose name it defines."""

built_in_cc_common = cc_common
built_in_cc_info = CcInfo
