"""Synonyms in names and descriptions of tools and skills, and in queries for them."""

ABBREVIATIONS = {
    "pr": "pull request",
    "prs": "pull requests",
    "mr": "merge request",
    "mrs": "merge requests",
    "repo": "repository",
    "repos": "repositories",
    "dm": "direct message",
    "db": "database",
    "ci": "pipeline workflow check",
    "ls": "list directory",
    "dir": "directory",
    "mkdir": "create directory",
    "rm": "delete file",
    "mv": "move file",
    "cp": "copy file",
    "cat": "read file",
    "js": "javascript",
    "docs": "documentation",
    "doc": "document",
    "k8s": "kubernetes",
    "vm": "instance",
    "env": "environment",
    "config": "configuration",
    "auth": "authentication",
    "msg": "message",
    "img": "image",
    "pic": "picture",
    "info": "information",
}
"""Each abbreviation stands for itself and for these words."""

GROUPS = tuple(
    line.split()
    for line in """\
create add new make open start insert register
file report submit create open
list show all display enumerate view browse
get fetch read retrieve show view look display load download see details
find search lookup look query locate discover
delete remove erase drop destroy trash clear unlink
update edit change modify set alter replace rewrite adjust rename
send post publish deliver notify write
reply answer respond
comment note remark annotation feedback reply
close resolve complete finish done
cancel stop abort end terminate
run execute invoke call evaluate launch perform trigger
retry rerun restart repeat again
start boot launch begin
move rename transfer transition relocate
copy duplicate clone fork
merge accept combine
approve accept confirm review
reject decline deny
upload attach put push store save
download export get fetch save
share grant permission access invite
invite add member
link connect relate relation associate block
assign owner assignee responsible
write create overwrite save
type enter input write
click press push tap hit
choose select pick option
open navigate visit go load
fill complete enter
log record entry track
local disk filesystem
time duration hours spent
analyze inspect examine diagnose check investigate
explain plan describe
suggest recommend advise
describe details information explain
count number aggregate total amount
schedule plan later calendar
subscribe subscription plan
refund money return payment
pay payment charge bill invoice
balance money funds
price cost fee amount
cost usage spend bill
discount coupon
buy order purchase payment
customer client buyer
product item
issue ticket bug task problem story card defect
error exception crash failure issue problem bug
stack stacktrace traceback backtrace
fix resolve repair solution
sprint iteration cycle
epic story
status state progress condition
version release
check status verify test
job build run workflow pipeline
workflow action pipeline
log output trace message
change diff difference patch modification
commit revision history
history recent past log previous
branch ref
code source function
vulnerable vulnerability security alert
alert alarm notification warning
notification unread mention
repository project
project repository workspace
user person people member account colleague employee teammate
me myself authenticated current whoami i my
login signin authenticated account
team group organization
channel room conversation chat
message conversation chat said text
reaction emoji smiley thumb
thread conversation
email mail
file document attachment
document doc page text
folder directory
tree structure hierarchy recursive
metadata information size properties attribute
image picture photo screenshot
screenshot picture capture snapshot
page website site web url
url address link web website
browser web page
button element
field input form
tab window
sheet spreadsheet excel table
cell range value
row line record
meeting event appointment call
invitation invite
attendee guest participant
free busy available availability
date time today now day
table relation view
column field
database sql postgres
query statement select
index indexes indices
slow slowest performance expensive
connection session connected
bucket s3 storage
instance machine server
function lambda
secret password credential
monitor metric alarm
environment stage
wiki documentation
documentation manual guide help docs
label tag
latest recent newest last
""".splitlines()
)
"""Groups of interchangeable words; a word may be in several."""
