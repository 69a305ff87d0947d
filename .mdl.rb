# SPDX-License-Identifier: Apache-2.0
#
# Rules for pages in Markdown. The numbers are mdl's.
all
exclude_rule 'MD013' # long lines: tables have them
exclude_rule 'MD033' # HTML: a drawing is placed with it
exclude_rule 'MD040' # the language of a block: commands and drawings have none
exclude_rule 'MD041' # the first line: that of generated pages says so
rule 'MD010', :ignore_code_blocks => true # Go is indented with tabs
rule 'MD024', :allow_different_nesting => true # each report has the same parts
rule 'MD026', :punctuation => '.,;:!' # a heading may ask
rule 'MD029', :style => :ordered
